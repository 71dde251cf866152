# tests/<room>/<name>_test.c   a program <build>/tests/<room>_<name>, registered under that name; labels by suffix:
#     <name>_slow_test.c slow, <name>_long_test.c long, <name>_mpi_test.c mpi (with 2 and with 4 ranks),
#     <name>_services_test.c services, all others fast
# tests/whole/<name>.sh        tests of the whole program, run by bash: whole_<name>; _slow.sh and _long.sh as above
# tests/support/*.[ch]         for every test (#include "support/expect.h"); sources are linked into all of them
# tests/tools/<name>.c         plain programs <build>/tests/<name>, not registered; tests/tools/<name>/*.c with a main.c:
#                              the same of several files
# tests/shims/<name>.c         libraries to be preloaded into the program: <build>/tests/<name>.so
# A test that exits with 77 counts as skipped.
find_program(MPIRUN mpirun)
find_program(BASH bash REQUIRED)

set(test_environment
    ROUX_PROGRAM=${CMAKE_BINARY_DIR}/roux ROUX_BUILD=${CMAKE_BINARY_DIR}
    ROUX_SOURCE=${CMAKE_SOURCE_DIR} OMP_WAIT_POLICY=passive)
set(mpi_environment
    ROUX_MODULES=${CMAKE_BINARY_DIR} OMP_NUM_THREADS=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
    ASAN_OPTIONS=detect_leaks=0) # Open MPI keeps memory to the end

function(roux_label_of result name)
    set(label fast)
    foreach(suffix slow long mpi services)
        if(name MATCHES "_${suffix}$")
            set(label ${suffix})
        endif()
    endforeach()
    set(${result} ${label} PARENT_SCOPE)
endfunction()

function(roux_test_properties name label)
    set(seconds_fast 120)
    set(seconds_slow 600)
    set(seconds_mpi 300)
    set(seconds_services 300)
    set(seconds_long 7200)
    set_tests_properties(
        ${name}
        PROPERTIES LABELS ${label} TIMEOUT ${seconds_${label}} SKIP_RETURN_CODE 77
                   ENVIRONMENT "${test_environment};${ARGN}" WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

find_path(SIMDE_INCLUDE simde/x86/avx512/dpbf16.h)
set(emulated_objects)
if(NOT ROUX_ROOMS OR "tensor" IN_LIST ROUX_ROOMS)
    roux_cpu_kernels(f32 avx512_emulated emulated_objects)
    roux_cpu_kernels(bf16 avx512_emulated emulated_objects)
    if(SIMDE_INCLUDE)
        roux_cpu_kernels(bf16 avx512_bf16_emulated emulated_objects)
    else()
        message(STATUS "SIMDe was not found (libsimde-dev): the emulation of bf16 products is not tested")
    endif()
endif()

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
add_library(roux_test_flags INTERFACE)
target_include_directories(roux_test_flags INTERFACE ${CMAKE_SOURCE_DIR}/tests)
if(support_sources)
    add_library(roux_test_support STATIC ${support_sources} ${emulated_objects})
    if(SIMDE_INCLUDE)
        target_compile_definitions(roux_test_support PRIVATE ROUX_SIMDE=1)
    endif()
    target_include_directories(roux_test_support PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(roux_test_support PUBLIC roux_core PkgConfig::CMOCKA)
    target_link_libraries(roux_test_flags INTERFACE roux_test_support)
endif()
target_link_libraries(roux_test_flags INTERFACE roux_core PkgConfig::CMOCKA)

file(GLOB test_sources CONFIGURE_DEPENDS ${test_patterns})
foreach(source ${test_sources})
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(room ${folder} NAME)
    get_filename_component(base ${source} NAME)
    string(REGEX REPLACE "_test\\.c$" "" base ${base})
    set(name ${room}_${base})
    roux_label_of(label ${base})

    add_executable(test_${name} ${source})
    target_link_libraries(test_${name} PRIVATE roux_test_flags)
    set_target_properties(
        test_${name} PROPERTIES OUTPUT_NAME ${name}
                                RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    if(NOT label STREQUAL mpi)
        add_test(NAME ${name} COMMAND test_${name})
        roux_test_properties(${name} ${label})
    else()
        foreach(ranks 2 4)
            if(MPIRUN AND TARGET roux-mpi)
                add_test(NAME ${name}_${ranks}
                         COMMAND ${MPIRUN} --allow-run-as-root --oversubscribe -n ${ranks}
                                 $<TARGET_FILE:test_${name}>)
            else()
                add_test(NAME ${name}_${ranks}
                         COMMAND ${BASH} -c "echo 'skipped: mpirun or roux-mpi.so is absent'; exit 77")
            endif()
            roux_test_properties(${name}_${ranks} ${label} ${mpi_environment})
            set_tests_properties(${name}_${ranks} PROPERTIES PROCESSORS 2)
        endforeach()
    endif()
endforeach()

if(ROUX_ROOMS)
    return()
endif()

function(roux_tool name)
    add_executable(tool_${name} ${ARGN})
    target_link_libraries(tool_${name} PRIVATE roux_test_flags)
    set_target_properties(
        tool_${name} PROPERTIES OUTPUT_NAME ${name}
                                RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

file(GLOB tool_sources CONFIGURE_DEPENDS tests/tools/*.c)
foreach(source ${tool_sources})
    get_filename_component(name ${source} NAME_WE)
    roux_tool(${name} ${source})
endforeach()
file(GLOB tool_mains CONFIGURE_DEPENDS tests/tools/*/main.c)
foreach(source ${tool_mains})
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${folder} NAME)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
    roux_tool(${name} ${sources})
endforeach()

# tests/shims/<name>.c -> <build>/tests/<name>.so, to be preloaded; without sanitizers, which do the same.
if(NOT ROUX_SANITIZE)
    file(GLOB shim_sources CONFIGURE_DEPENDS tests/shims/*.c)
    foreach(source ${shim_sources})
        get_filename_component(name ${source} NAME_WE)
        add_library(shim_${name} MODULE ${source})
        target_link_libraries(shim_${name} PRIVATE roux_flags ${CMAKE_DL_LIBS})
        set_target_properties(
            shim_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY
                                                                  ${CMAKE_BINARY_DIR}/tests)
    endforeach()
endif()

file(GLOB whole_sources CONFIGURE_DEPENDS tests/whole/*.sh)
foreach(source ${whole_sources})
    get_filename_component(base ${source} NAME_WE)
    roux_label_of(label ${base})
    add_test(NAME whole_${base} COMMAND ${BASH} ${source})
    roux_test_properties(whole_${base} ${label} ${mpi_environment})
endforeach()

add_test(NAME lint_includes COMMAND ${BASH} ${CMAKE_SOURCE_DIR}/tests/lint/includes.sh)
roux_test_properties(lint_includes fast)
