# src/tensor/ref/*.c: the plain kernels, for double once per instruction set, for float once (others compute in float
# with src/tensor/cpu). The file's real.h turns ROUX_REAL_BITS and ROUX_FAMILY into distinct symbols; the table that
# suits the processor is chosen when running. Contraction stays off and no sum is reordered, so a wider family differs
# from a narrower one in speed alone.
set(kernel_objects)
file(GLOB kernel_sources CONFIGURE_DEPENDS src/tensor/ref/*.c)

set(kernel_march_scalar -march=x86-64)
set(kernel_march_avx2 -march=x86-64-v3)
set(kernel_march_avx512 -march=x86-64-v4 -mprefer-vector-width=512)

function(roux_ref_kernels bits family)
    set(name kernels_${bits}_${family})
    add_library(${name} OBJECT ${kernel_sources})
    target_link_libraries(${name} PRIVATE roux_flags)
    target_compile_definitions(${name} PRIVATE ROUX_REAL_BITS=${bits} ROUX_FAMILY=${family})
    target_compile_options(
        ${name} PRIVATE ${kernel_optimisation} ${kernel_march_${family}} -fopenmp-simd
                        -fno-math-errno -fno-trapping-math)
    set(kernel_objects ${kernel_objects} $<TARGET_OBJECTS:${name}> PARENT_SCOPE)
endfunction()

if(kernel_sources AND (NOT ROUX_ROOMS OR "tensor" IN_LIST ROUX_ROOMS))
    roux_ref_kernels(32 scalar)
    roux_ref_kernels(64 scalar)
    roux_ref_kernels(64 avx2)
    roux_ref_kernels(64 avx512)
endif()

# src/tensor/cpu/*.c: vector code, once per storage type and instruction set (src/tensor/cpu/vec.h). Here the compiler
# may contract. The emulated families are 512-bit code for processors without it (the compiler takes vectors apart, SIMDe
# knows the products of bf16 pairs); they stand in the tests alone.
file(GLOB cpu_sources CONFIGURE_DEPENDS src/tensor/cpu/*.c)
# A property of the sources, since it must stand behind the -ffp-contract=off that is meant for all others.
set_source_files_properties(${cpu_sources} PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)

set(vector_bytes_scalar 16)
set(vector_bytes_avx2 32)
set(vector_bytes_avx512 64)
set(vector_bytes_avx512_bf16 64)
set(vector_bytes_avx512_emulated 64)
set(vector_bytes_avx512_bf16_emulated 64)
set(kernel_march_avx512_bf16 ${kernel_march_avx512} -mavx512bf16)
set(kernel_march_avx512_emulated -march=x86-64)
set(kernel_march_avx512_bf16_emulated -march=x86-64 -DROUX_SIMDE=1)

function(roux_cpu_kernels store family out)
    set(name kernels_${store}_${family})
    add_library(${name} OBJECT ${cpu_sources})
    target_link_libraries(${name} PRIVATE roux_flags)
    target_compile_definitions(
        ${name} PRIVATE ROUX_STORE=${store} ROUX_FAMILY=${family}
                        ROUX_VECTOR=${vector_bytes_${family}} ROUX_PAIRS_${family}=1)
    target_compile_options(
        ${name} PRIVATE ${kernel_optimisation} ${kernel_march_${family}} -fno-math-errno
                        -fno-trapping-math -Wno-psabi)
    set(${out} ${${out}} $<TARGET_OBJECTS:${name}> PARENT_SCOPE)
endfunction()

if(cpu_sources AND (NOT ROUX_ROOMS OR "tensor" IN_LIST ROUX_ROOMS))
    foreach(family avx2 avx512)
        roux_cpu_kernels(f32 ${family} kernel_objects)
    endforeach()
    foreach(family scalar avx2 avx512 avx512_bf16)
        roux_cpu_kernels(bf16 ${family} kernel_objects)
    endforeach()
endif()
