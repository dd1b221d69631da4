# Set-up shared by ./run and ./test: the packages they need, and building with short progress on stderr. Sourced, not run.
#
# Everything here is silent and quick when there is nothing to do, and safe to repeat. Logs go to build/logs/.

# libgtest-dev and libbenchmark-dev are for tests and benchmarks, but configuring looks for them.
build_packages="g++ cmake ninja-build pkg-config nlohmann-json3-dev libsimdjson-dev libcli11-dev libutf8proc-dev libpcre2-dev
  libgtest-dev libbenchmark-dev"
test_packages="clang-format python3"
sanitizer_packages="clang libclang-rt-14-dev"  # the fuzz targets; gcc brings its own sanitizers

logs=build/logs
export NINJA_STATUS="[%f/%t] "

say() { printf '%s\n' "$*" >&2; }

# stop_with_log LOG MESSAGE: shows the end of the log and ends the script.
stop_with_log() {
  say "---- the end of $1:"
  tail -n 30 "$1" >&2 || true
  say "----"
  say "$2"
  exit 1
}

# install_packages PACKAGE...: installs those that are missing. With all there, it costs one dpkg-query and no network.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    command -v cmake >/dev/null && command -v ninja >/dev/null && return 0
    say "This needs Debian 12 or a relative with apt. Elsewhere, install what these packages hold, then run it again: $*"
    exit 1
  fi
  local installed missing="" package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    [[ $'\n'$installed$'\n' == *$'\n'"installed $package"$'\n'* ]] || missing+=" $package"
  done
  [ -n "$missing" ] || return 0

  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "Missing packages:$missing. Install them as root, or install sudo, then run it again."; exit 1; }
    as_root=(sudo)
  fi
  say "installing packages (half a minute to two):$missing"
  mkdir -p $logs
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  # An update that fails (one of several sources is down) is no reason to stop: the installation shows whether it matters.
  "${apt[@]}" update >$logs/packages.log 2>&1 || true
  # shellcheck disable=SC2086  # a list of words
  "${apt[@]}" install -y --no-install-recommends $missing >>$logs/packages.log 2>&1 </dev/null ||
    stop_with_log $logs/packages.log "The packages could not be installed:$missing"
}

# has_cuda_toolkit: whether the CUDA backend can be built here: nvcc, and the header of cuBLASLt, which some packages leave out.
has_cuda_toolkit() {
  local nvcc folder
  nvcc=$(command -v nvcc) || return 1
  folder=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  compgen -G "$folder/include/cublasLt.h" >/dev/null || compgen -G "$folder/targets/*/include/cublasLt.h" >/dev/null
}

# show_progress: ninja's output in, one line that counts up (terminal) or a line every tenth (elsewhere) out, on stderr.
show_progress() {
  local line done total tenth last=-1
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    done=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    if [ -t 2 ]; then
      printf '\r  %d of %d steps ' "$done" "$total" >&2
      last=$done
    else
      tenth=$((done * 10 / total))
      [ $tenth = $last ] || say "  $done of $total steps"
      last=$tenth
    fi
  done
  if [ -t 2 ] && [ $last -ge 0 ]; then printf '\n' >&2; fi
}

# configure PRESET: writes build/PRESET. A build folder that was made for another place is made anew. Returns 1 on failure.
configure() {
  mkdir -p $logs
  cmake --preset "$1" >"$logs/configure-$1.log" 2>&1 || cmake --preset "$1" --fresh >"$logs/configure-$1.log" 2>&1
}

# build PRESET [TARGET...]: builds what is out of date. Returns 1 on failure; the log is build/logs/build-PRESET.log.
build() {
  local preset=$1
  shift
  cmake --build --preset "$preset" ${1:+--target "$@"} 2>&1 | tee "$logs/build-$preset.log" | show_progress
  return "${PIPESTATUS[0]}"
}

# with_build_lock COMMAND...: one script at a time builds here; the lock goes when the script ends or the command is done.
with_build_lock() {
  mkdir -p $logs
  exec 9>build/lock
  if ! flock --nonblock 9; then
    say "waiting for another ./run or ./test of this folder ..."
    flock 9
  fi
  "$@"
  exec 9>&-
}
