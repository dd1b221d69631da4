#!/usr/bin/env bash
# All that needs a GPU: tests, equal answers, first figures. A GPU machine need not be able to build: see --pack.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

usage() {
  cat <<'END'
usage: tools/check_gpu.sh --pack DIR                      build the preset cuda here and put what a GPU machine needs into DIR:
                                                          the program, the test programs, and the libraries they were linked with
       tools/check_gpu.sh [--only NAME] [--results FILE] DIR
                                                          run it on the GPU machine, in a copy of this repository: one line a check
                                                          and a table of figures; FILE gets the figures as JSON
       tools/check_gpu.sh --sanitize DIR                  the op tests and a short generate under compute-sanitizer

NAME is one or more, with commas between, of: doctor ops ptx models llm generate score differs requests memory start bench bench_ops. Logs are in DIR/logs. Exit 0 if nothing failed.
END
}

mode=run only="" results=""
while [ $# -gt 1 ]; do
  case $1 in
    --pack) mode=pack; shift ;;
    --sanitize) mode=sanitize; shift ;;
    --only) only=$2; shift 2 ;;
    --results) results=$2; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
case ${1-} in "" | -*) usage >&2; exit 2 ;; esac
mkdir -p "$1/lib" "$1/logs"
dir=$(cd "$1" && pwd)

if [ $mode = pack ]; then
  set -e
  cmake --preset cuda >"$dir/logs/configure.log"
  cmake --build --preset cuda --target nanovllm test_ops test_models test_llm bench_gpu >"$dir/logs/build.log" ||
    { tail -n 30 "$dir/logs/build.log"; exit 1; }
  for program in src/cli/nanovllm tests/ops/test_ops tests/models/test_models tests/llm/test_llm bench/bench_gpu; do
    strip -o "$dir/$(basename $program)" build/cuda/$program
  done
  ldd "$dir/nanovllm" | sed -n 's/.*\(lib\(simdjson\|pcre2-8\|utf8proc\)[^ ]*\) => \([^ ]*\) .*/\3/p' | while read -r library; do
    cp -L "$library" "$dir/lib/"
  done
  git describe --always --dirty >"$dir/commit"
  du -sh "$dir"
  exit 0
fi

export LD_LIBRARY_PATH="$dir/lib:${LD_LIBRARY_PATH-}" NANOVLLM_SOURCE_DIR=$PWD
nanovllm=$dir/nanovllm
failed=0 num_checks=0 figures=$dir/logs/figures.txt
: >"$figures"

# check NAME COMMAND...: runs it unless another is asked for, and says how it ended.
check() {
  local name=$1 begin=$SECONDS log=$dir/logs/$1.log
  shift
  [ -z "$only" ] || [[ ",$only," == *",$name,"* ]] || return 0
  num_checks=$((num_checks + 1))
  if "$@" >"$log" 2>&1; then
    printf '%-10s ok      %4d s  %s\n' "$name" $((SECONDS - begin)) "$(tail -n 1 "$log" | cut -c1-90)"
  else
    printf '%-10s FAILED  %4d s\n' "$name" $((SECONDS - begin))
    grep -E 'Failure|FAILED|rror' "$log" | head -n 30 | cut -c1-200
    failed=$((failed + 1))
  fi
}
figure() { printf '%s %s %s\n' "$1" "$2" "$3" >>"$figures"; }  # NAME VALUE UNIT

model=$dir/random-0.6b
make_model() {
  [ -e "$model/config.json" ] || python3 tools/make_random_checkpoint.py "$model" --preset 0.6b
}

make_config() { [ -e "$dir/config-$1" ] || python3 tools/make_random_checkpoint.py "$dir/config-$1" --preset "$1" --config-only; }

test_program() { "$dir/test_$1" --gtest_brief=1 --gtest_death_test_style=threadsafe "${@:2}"; }

# The demo model's texts: in bf16 within half a percent of float32's perplexity.
compare_scores() {
  python3 - "$nanovllm" <<'END'
import json, subprocess, sys
texts = " ".join(row["text"] for row in json.load(open("models/demo/reference.json"))["scored"])
def perplexity(dtype):
    return json.loads(subprocess.run([sys.argv[1], "score", "models/demo", texts, "--device", "cuda", "--dtype", dtype, "--json"],
                                     check=True, capture_output=True, text=True).stdout)["perplexity"]
bf16, f32 = perplexity("bfloat16"), perplexity("float32")
print(f"perplexity {bf16:.5f} in bf16, {f32:.5f} in float32: {100 * abs(bf16 / f32 - 1):.3f} % apart")
sys.exit(abs(bf16 / f32 - 1) > 0.005)
END
}

# The same prompts one by one and all at once: the number of answers that differ.
count_differing() {
  make_model || return 1
  python3 - >"$dir/prompts.jsonl" <<'END'
import json, random
random.seed(0)
for i in range(64):
    ids = [random.randrange(150000) for _ in range(random.randint(10, 900))]
    print(json.dumps({"prompt": ids, "temperature": 0, "max_tokens": 100, "ignore_eos": True}))
END
  "$nanovllm" generate "$model" --device cuda --input "$dir/prompts.jsonl" --format jsonl --output "$dir/together.jsonl" || return 1
  "$nanovllm" generate "$model" --device cuda --input "$dir/prompts.jsonl" --format jsonl --output "$dir/alone.jsonl" --max-num-seqs 1 \
    --no-prefix-caching || return 1
  "$nanovllm" generate "$model" --device cuda --input "$dir/prompts.jsonl" --format jsonl --output "$dir/chunks.jsonl" --max-num-seqs 48 \
    --max-num-batched-tokens 129 || return 1
  python3 - "$dir" <<'END'
import json, sys
rows = [[json.loads(line)["token_ids"] for line in open(f"{sys.argv[1]}/{name}.jsonl")] for name in ("alone", "together", "chunks")]
assert len(rows[0]) == 64 and all(len(ids) == 100 for each in rows for ids in each)
differ = sum(len({tuple(each[i]) for each in rows}) > 1 for i in range(64))
print(f"{differ} of 64 answers differ between alone, together and in chunks of 129")
sys.exit(differ > 0)
END
  local status=$?
  figure gpu.differs.64 "$(sed -n 's/^\([0-9]*\) of 64.*/\1/p' "$dir/logs/differs.log")" answers
  return $status
}

# Ten thousand short requests with a cache for a few of them, and with one for all: the same answers.
answers_of() { "$nanovllm" bench throughput models/demo --device cuda --num-prompts 10000 --min-input-len 1 --max-input-len 60 \
  --min-output-len 1 --max-output-len 12 "$@" | tee -a /dev/stderr | sed -n 's/^ *answers *//p'; }
many_requests() {
  local roomy tight
  roomy=$(answers_of) && tight=$(answers_of --num-kvcache-blocks 12 --kvcache-block-size 16 --max-num-batched-tokens 300) || return 1
  [ -n "$roomy" ] && [ "$roomy" = "$tight" ] && echo "10000 requests: $roomy with a large cache and a small one"
}

# From the command to the first token of the 0.6B model, its files in the page cache.
time_to_start() {
  make_model || return 1
  cat "$model"/*.safetensors >/dev/null
  local begin end
  begin=$(date +%s.%N)
  "$nanovllm" bench latency "$model" --device cuda --context 8 --output-len 1 --runs 1 || return 1
  end=$(date +%s.%N)
  figure gpu.start.0.6b "$(python3 -c "print(f'{$end - $begin:.4g}')")" s
}

# json_number FILE KEY [FACTOR]
json_number() { python3 -c "import json, sys; print(f'{json.load(open(sys.argv[1]))[sys.argv[2]] * float(sys.argv[3]):.5g}')" "$1" "$2" "${3-1}"; }
# Two sizes at three shares of the memory, then two processes at once: each runs in what the plan left it, and alone takes no more
# than was planned. The answers need no weights that say something.
run_at() {  # MODEL SHARE [REQUESTS]
  "$nanovllm" bench throughput "$dir/config-$1" --device cuda --load-format dummy --gpu-memory-utilization "$2" --num-prompts "${3-64}" \
    --max-input-len 2000 --max-output-len 20 --min-output-len 1 --json >"$dir/logs/run-$1.json" && grep answers "$dir/logs/run-$1.json"
}
takes_what_was_planned() {  # MODEL
  python3 - "$dir/logs/run-$1.json" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
used, planned = run["memory_used_bytes"], run["memory_planned_bytes"]
print(f"{used / 1e6:.0f} MB used, {planned / 1e6:.0f} planned")
sys.exit(used > planned)
END
}
shares_of_memory() {
  local size share
  for size in 0.6b 8b; do
    make_config $size || return 1
    for share in 0.5 0.9 0.99; do run_at $size $share && takes_what_was_planned $size || return 1; done
  done
  run_at 8b 0.5 1024 &
  local other=$! used tries=0
  until used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits) && [ "$used" -gt 60000 ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || break
    sleep 0.1
  done
  run_at 0.6b 0.9
  local status=$?
  wait $other && [ $status = 0 ] && [ "$used" -gt 60000 ] || return 1
  echo "0.6B and 8B at shares 0.5, 0.9 and 0.99, and one beside the other"
}

bench() {
  make_model || return 1
  local out=$dir/logs/bench.json context
  "$nanovllm" bench throughput "$model" --device cuda --json >"$out" || return 1
  cat "$out"
  figure gpu.throughput.0.6b "$(json_number "$out" output_tok_per_s)" tok/s
  figure gpu.busy "$(json_number "$out" device_busy_share 100)" %
  figure gpu.memory.planned "$(json_number "$out" memory_planned_bytes 1e-6)" MB
  figure gpu.memory.used "$(json_number "$out" memory_used_bytes 1e-6)" MB
  for context in 128 1024; do
    "$nanovllm" bench latency "$model" --device cuda --context $context --output-len 128 --json >"$out" || return 1
    cat "$out"
    figure gpu.latency.0.6b.ctx$context "$(json_number "$out" time_per_output_token_s 1000)" "ms a token"
    figure gpu.ttft.$context "$(json_number "$out" time_to_first_token_s 1000)" ms
  done
  for context in 16 512 4000; do
    "$nanovllm" bench latency "$model" --device cuda --context $context --output-len 1 --runs 9 --json >"$out" || return 1
    cat "$out"
    figure gpu.ttft.$context "$(json_number "$out" time_to_first_token_s 1000)" ms
  done
  for batch in 8 64 256; do
    "$nanovllm" bench throughput "$model" --device cuda --num-prompts $batch --min-input-len 128 --max-input-len 128 \
      --min-output-len 257 --max-output-len 257 --json >"$out" || return 1
    cat "$out"
    figure gpu.throughput.0.6b.batch$batch "$(json_number "$out" output_tok_per_s)" tok/s
    [ $batch = 256 ] && figure gpu.host_time.batch256 "$(json_number "$out" host_s_per_decode_step 1e6)" "us a step"
  done
  # What filters and logprobs add to steps of 256 sequences.
  local name
  for name in top_k50_top_p90 top_p90 logprobs5; do
    case $name in
      top_k50_top_p90) set -- --top-k 50 --top-p 0.9 ;;
      top_p90) set -- --top-p 0.9 ;;
      logprobs5) set -- --logprobs 5 ;;
    esac
    "$nanovllm" bench throughput "$model" --device cuda --num-prompts 256 --min-input-len 128 --max-input-len 128 --min-output-len 257 \
      --max-output-len 257 --json "$@" >"$out" || return 1
    cat "$out"
    figure gpu.throughput.0.6b.batch256.$name "$(json_number "$out" output_tok_per_s)" tok/s
  done
  "$nanovllm" bench latency "$model" --device cuda --context 16000 --output-len 1 --company 64 --json >"$out" || return 1
  cat "$out"
  figure gpu.company64.between_tokens "$(json_number "$out" company_time_between_tokens_s 1000)" ms
  figure gpu.company64.longest_between_tokens "$(json_number "$out" company_longest_time_between_tokens_s 1000)" ms
  make_config 8b && "$nanovllm" bench latency "$dir/config-8b" --device cuda --load-format dummy --context 128 --output-len 64 --json \
    >"$out" || return 1
  cat "$out"
  figure gpu.latency.8b.ctx128 "$(json_number "$out" time_per_output_token_s 1000)" "ms a token"
  cat "$figures"
}

sanitized() { compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20 "${@:2}"; }
short_generate() { sanitized "$1" "$nanovllm" generate models/demo --device cuda "Once upon a time" --max-tokens 4 --max-num-seqs 8 --max-num-batched-tokens 64; }
# Large shapes say nothing new here and take hours; of races and uninitialised memory, which are slow to look for, a test a kernel.
# Races are not looked for where the copy engine writes shared memory, in cuBLASLt's kernels and in decode_kernel: the tool does
# not see that mbarriers order those writes, and reports every stage that is filled twice. short_generate fills none twice, and has
# the other kernels of attention too.
small_ops() {
  local rows='T/RowsMmaTest.*:Sets/SampleTest.Greedy*/cuda:Sets/SampleTest.TopPIs*/cuda:Sets/SampleWholeVocabularies.AFewRows*/cuda:Sets/EditLogitsTest.IsItsDefinition/cuda:Sets/LogprobsTest.TiesGo*/cuda:Sets/RmsNormTest.IsItsDefinition/cuda' tests
  case $1 in
    memcheck) tests='*cuda*:*Mma*-*ThePlainChain*:*AsManyTokens*:*Logits*:*GatedProduct*:*LongPrompts*:*WholeVocab*DrawTheDef*:*Frequencies*:*DeathTest*' ;;
    racecheck) tests=$rows ;;
    initcheck) tests="$rows:T/AttentionMmaTest.DecodesAndChunksInOneStep/*:T/LinearMmaTest.IsItsDefinition/*" ;;
  esac
  "$dir/test_ops" --gtest_list_tests --gtest_filter="$tests" | grep -q '^  ' && sanitized "$1" "$dir/test_ops" --gtest_brief=1 --gtest_filter="$tests"
}

"$nanovllm" generate models/demo --device cuda --max-tokens 1 Hi >/dev/null || exit 1  # without a GPU tests would only skip
if [ $mode = sanitize ]; then
  for tool in memcheck racecheck initcheck; do
    check $tool-generate short_generate $tool
    check $tool-ops small_ops $tool
  done
  exit $failed
fi

check doctor "$nanovllm" doctor
check ops test_program ops
check ptx env CUDA_FORCE_PTX_JIT=1 "$dir/test_ops" --gtest_brief=1 '--gtest_filter=T/*-*ThePlainChain*:*AsManyTokens*'
check models test_program models
check llm test_program llm '--gtest_filter=*SameBits*:*Gpu*:*/cuda'
check generate "$nanovllm" generate models/demo --device cuda "Once upon a time" --max-tokens 40 --temperature 0
check score compare_scores
check differs count_differing
check requests many_requests
check memory shares_of_memory
check start time_to_start
check bench bench
check bench_ops "$dir/bench_gpu" "$dir/logs/gpu_ops.json" --commit "$(sed 's/-dirty//' "$dir/commit")"
column -t "$figures" 2>/dev/null || cat "$figures"
if [ $num_checks = 0 ]; then
  usage >&2
  exit 2
fi
if [ -n "$results" ]; then
  python3 - "$figures" "$results" "$(cat "$dir/commit")" "$("$nanovllm" doctor --json)" <<'END'
import datetime, json, re, sys
figures, results, commit, doctor = sys.argv[1:]
rows = [dict(zip(("name", "value", "unit"), line.split(" ", 2))) for line in open(figures).read().splitlines()]
# Measured on one H200 with the same model and workload, each in a run of its own.
vllm = {"gpu.throughput.0.6b": 22172, "gpu.latency.0.6b.ctx128": 1.64, "gpu.latency.0.6b.ctx1024": 1.73, "gpu.ttft.16": 9.9,
        "gpu.ttft.512": 10.4, "gpu.ttft.1024": 18.7, "gpu.ttft.4000": 21.6, "gpu.throughput.0.6b.batch8": 4505,
        "gpu.throughput.0.6b.batch64": 25105, "gpu.throughput.0.6b.batch256": 44700}
for row in rows:
    row["value"] = float(row["value"])
    if row["name"] in vllm:
        row |= {"rival": "vLLM 0.26.0", "rival_value": vllm[row["name"]]}
doctor = json.loads(doctor)
driver = re.search(r"[0-9]+[.][0-9]+[.][0-9]+", doctor["nvidia_driver"]).group()
json.dump({"what": "gpu", "machine": f"{doctor['cuda_device']}, driver {driver}", "date": datetime.date.today().isoformat(), "commit": commit,
           "command": "tools/check_gpu.sh", "model": "random Qwen3-0.6B bf16, seed 0", "rows": rows}, open(results, "w"), indent=1)
END
fi
exit $failed
