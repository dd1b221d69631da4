# cmake --install: the program, the libraries, and the headers that an embedder's code sees (examples/embed). Others stay inside.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nanovllm)
install(TARGETS nanovllm RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT nanovllmTargets NAMESPACE nanovllm:: DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nanovllmConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/nanovllmConfig.cmake.in nanovllmConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/nanovllmConfig.cmake ${PROJECT_BINARY_DIR}/nanovllmConfigVersion.cmake DESTINATION ${package_dir})
foreach(header base/error.h base/token.h engine/logits_edits.h engine/logprobs.h engine/sampling_params.h engine/sequence.h llm/config.h llm/llm.h tokenizer/prompt_text.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nanovllm/${folder})
endforeach()
