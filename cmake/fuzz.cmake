# fuzz/<name>_fuzz.c -> <build>/fuzz/<name>; cmake/fuzz.sh runs them.
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/*_fuzz.c)
foreach(source ${fuzz_sources})
    get_filename_component(name ${source} NAME)
    string(REGEX REPLACE "_fuzz\\.c$" "" name ${name})
    add_executable(fuzz_${name} ${source})
    # libFuzzer calls LLVMFuzzerTestOneInput, and no header declares it.
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${name} PRIVATE roux_core)
    set_target_properties(
        fuzz_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endforeach()
