# Each file of src/tensor/ref is compiled once per number type and instruction set. The file's real.h turns
# ROUX_REAL_BITS and ROUX_FAMILY into distinct symbols; the table that suits the processor is chosen when running.
# Contraction stays off and no sum is reordered, so a wider family differs from a narrower one in speed alone.
set(kernel_objects)
file(GLOB kernel_sources CONFIGURE_DEPENDS src/tensor/ref/*.c)

set(kernel_march_scalar -march=x86-64)
set(kernel_march_avx2 -march=x86-64-v3)
set(kernel_march_avx512 -march=x86-64-v4 -mprefer-vector-width=512)

if(kernel_sources AND (NOT ROUX_ROOMS OR "tensor" IN_LIST ROUX_ROOMS))
    foreach(bits 32 64)
        foreach(family scalar avx2 avx512)
            set(name kernels_${bits}_${family})
            add_library(${name} OBJECT ${kernel_sources})
            target_link_libraries(${name} PRIVATE roux_flags)
            target_compile_definitions(
                ${name} PRIVATE ROUX_REAL_BITS=${bits} ROUX_FAMILY=${family})
            target_compile_options(
                ${name} PRIVATE ${kernel_optimisation} ${kernel_march_${family}} -fopenmp-simd
                                -fno-math-errno -fno-trapping-math)
            list(APPEND kernel_objects $<TARGET_OBJECTS:${name}>)
        endforeach()
    endforeach()
endif()
