# Helpers that keep every folder's CMakeLists.txt to a line or two.

# nanovllm_library(tokenizer SOURCES a.cpp b.cpp LINKS nanovllm::base [PRIVATE_LINKS utf8proc])
# One static library per folder of src/, included as "folder/file.h".
function(nanovllm_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(nanovllm_${name} STATIC ${ARG_SOURCES})
  add_library(nanovllm::${name} ALIAS nanovllm_${name})
  target_include_directories(nanovllm_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/nanovllm>)
  target_compile_features(nanovllm_${name} PUBLIC cxx_std_20)
  set_target_properties(nanovllm_${name} PROPERTIES EXPORT_NAME ${name})
  if(NOT name STREQUAL "cli")
    install(TARGETS nanovllm_${name} EXPORT nanovllmTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/nanovllm)
  endif()
  target_link_libraries(nanovllm_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
endfunction()

# nanovllm_test(base SOURCES error_test.cpp ... LINKS nanovllm::base [LABELS threads])
# One test program per folder of tests/; label "threads": also run under the thread sanitizer.
# Building them is most of the time of ./test, so it is kept short: -O1 (the last -O counts), and the large headers parsed
# once. Sources include what they use all the same: the preset asan builds without precompiled headers.
function(nanovllm_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE
    NANOVLLM_SOURCE_DIR="${PROJECT_SOURCE_DIR}" NANOVLLM_BINARY_DIR="${PROJECT_BINARY_DIR}"
    NANOVLLM_QWEN3_TOKENIZER="${NANOVLLM_QWEN3_TOKENIZER}" NANOVLLM_CHAT_TEMPLATES="${NANOVLLM_CHAT_TEMPLATES}")
  target_compile_options(test_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  target_link_libraries(test_${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gtest_main)
  if(NOT TARGET test_base)
    message(FATAL_ERROR "tests/base comes first: the others reuse its precompiled headers")
  elseif(name STREQUAL "base")
    target_precompile_headers(test_base PRIVATE <gtest/gtest.h> <nlohmann/json.hpp>)
  else()
    target_precompile_headers(test_${name} REUSE_FROM test_base)
  endif()
  add_test(NAME ${name} COMMAND test_${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()

# nanovllm_fuzz(safetensors SOURCES safetensors_fuzz.cpp LINKS nanovllm::checkpoint)
function(nanovllm_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(fuzz_${name} ${ARG_SOURCES})
  target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_LINKS})
endfunction()
