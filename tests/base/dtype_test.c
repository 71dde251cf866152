#include <math.h>
#include "base/dtype.h"
#include "base/philox.h"
#include "support/expect.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static void names_and_widths(void **state)
{
    static const struct {
        enum dtype type;
        const char *name;
        int bits;
        bool is_float;
    } rows[] = {
        { DT_F64, "F64", 64, true },        { DT_F32, "F32", 32, true },
        { DT_F16, "F16", 16, true },        { DT_BF16, "BF16", 16, true },
        { DT_F8_E4M3, "F8_E4M3", 8, true }, { DT_F8_E5M2, "F8_E5M2", 8, true },
        { DT_F8_E8M0, "F8_E8M0", 8, true }, { DT_F6_E2M3, "F6_E2M3", 6, true },
        { DT_F6_E3M2, "F6_E3M2", 6, true }, { DT_F4, "F4", 4, true },
        { DT_I64, "I64", 64, false },       { DT_I32, "I32", 32, false },
        { DT_I16, "I16", 16, false },       { DT_I8, "I8", 8, false },
        { DT_U64, "U64", 64, false },       { DT_U32, "U32", 32, false },
        { DT_U16, "U16", 16, false },       { DT_U8, "U8", 8, false },
        { DT_BOOL, "BOOL", 8, false },      { DT_C64, "C64", 64, false },
    };

    (void)state;
    assert_int_equal(sizeof rows / sizeof rows[0], DT_COUNT - 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(dtype_name(rows[i].type), rows[i].name);
        assert_int_equal(dtype_find(rows[i].name), rows[i].type);
        assert_int_equal(dtype_bits(rows[i].type), rows[i].bits);
        assert_int_equal(dtype_is_float(rows[i].type), rows[i].is_float);
        if (rows[i].bits % 8 == 0) {
            assert_int_equal(dtype_bytes(rows[i].type), rows[i].bits / 8);
        }
    }
    assert_int_equal(dtype_find("f32"), DT_NONE);
    assert_int_equal(dtype_find(""), DT_NONE);
    assert_int_equal(dtype_find("none"), DT_NONE);
    assert_false(dtype_is_float(DT_NONE));
}

static void bytes_of_half_a_byte(void)
{
    dtype_bytes(DT_F4);
}

static void bytes_of_nothing(void)
{
    dtype_bytes(DT_NONE);
}

static void widths_that_are_no_bytes_are_our_mistake(void **state)
{
    (void)state;
    expect_broken_check(bytes_of_half_a_byte, "F4 is not whole bytes");
    expect_broken_check(bytes_of_nothing, "no number type 0");
}

/* What a narrow float's bits mean, by definition: e exponent bits, m fraction bits. */
static double meaning(uint32_t bits, int e, int m, bool has_infinity)
{
    int exponent = (int)(bits >> m & ((1U << e) - 1)), bias = (1 << (e - 1)) - 1;
    double fraction = (double)(bits & ((1U << m) - 1)), sign = bits >> (e + m) != 0 ? -1 : 1;

    if (has_infinity && exponent == (1 << e) - 1) {
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, 1 - bias - m);
    }
    return sign * ldexp(fraction + (double)(1 << m), exponent - bias - m);
}

static void expect_meaning(float found, double right)
{
    if (isnan(right) || isnan(found)) {
        assert_true(isnan(right) && isnan(found));
    } else {
        assert_int_equal(bits_of(found), bits_of((float)right));
    }
}

static void narrow_floats_mean_what_they_should(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        expect_meaning(f16_to_float((uint16_t)bits), meaning(bits, 5, 10, true));
        expect_meaning(bf16_to_float((uint16_t)bits), meaning(bits, 8, 7, true));
    }
    for (uint32_t bits = 0; bits < 0x100; bits++) {
        expect_meaning(f8_e5m2_to_float((uint8_t)bits), meaning(bits, 5, 2, true));
        expect_meaning(f8_e4m3_to_float((uint8_t)bits),
                       (bits & 0x7f) == 0x7f ? (double)NAN : meaning(bits, 4, 3, false));
    }
}

static void every_narrow_float_comes_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t half = f16_from_float(f16_to_float((uint16_t)bits));
        uint16_t brain = bf16_from_float(bf16_to_float((uint16_t)bits));

        assert_int_equal(half, (bits & 0x7fff) > 0x7c00 ? bits | 0x200 : bits);
        assert_int_equal(brain, (bits & 0x7fff) > 0x7f80 ? bits | 0x40 : bits);
    }
}

/* Between two neighbours lies one point where rounding changes sides; all of them, from below, at
 * and above. */
static void expect_rounding(uint16_t (*narrow)(float), float (*widen)(uint16_t), uint32_t infinity)
{
    for (uint32_t bits = 0; bits + 1 < infinity; bits++) {
        float low = widen((uint16_t)bits), high = widen((uint16_t)(bits + 1));
        float middle = low / 2 + high / 2;
        uint32_t even = bits % 2 == 0 ? bits : bits + 1;

        if (low / 2 + low / 2 != low || (double)middle != ((double)low + (double)high) / 2) {
            middle = float_of(bits_of(low) + (bits_of(high) - bits_of(low)) /
                                                 2); /* below float's own normal range */
        }
        assert_int_equal(narrow(middle), even);
        assert_int_equal(narrow(-middle), even | 0x8000);
        assert_int_equal(narrow(nextafterf(middle, 0)), bits);
        assert_int_equal(narrow(nextafterf(middle, INFINITY)), bits + 1);
    }
    assert_int_equal(narrow(INFINITY), infinity);
    assert_int_equal(narrow(-INFINITY), infinity | 0x8000);
    assert_int_equal(narrow(0.0f), 0);
    assert_int_equal(narrow(-0.0f), 0x8000);
}

static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    expect_rounding(f16_from_float, f16_to_float, 0x7c00);
    expect_rounding(bf16_from_float, bf16_to_float, 0x7f80);
    assert_int_equal(f16_from_float(65519.996f), 0x7bff);
    assert_int_equal(f16_from_float(65520), 0x7c00);
    assert_int_equal(bf16_from_float(float_of(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(bf16_from_float(float_of(0x7f7f8000)), 0x7f80);
}

static void nan_stays_nan(void **state)
{
    (void)state;
    assert_int_equal(bf16_from_float(float_of(0x7f800001)),
                     0x7fc0); /* what is left of its payload would be infinity */
    assert_int_equal(bf16_from_float(float_of(0xffa50000)), 0xffe5);
    assert_int_equal(bf16_from_float(float_of(0x7fffffff)), 0x7fff);
    assert_int_equal(f16_from_float(float_of(0x7f800001)), 0x7e00);
    assert_int_equal(f16_from_float(float_of(0xffc0a000)), 0xfe05);
    assert_int_equal(bits_of(f16_to_float(0xfc01)), 0xffc02000);
    assert_int_equal(bits_of(bf16_to_float(0x7f81)), 0x7fc10000);
}

/* F64 to a narrow type rounds once. The double lies so close to a tie that float takes it for the
 * tie. */
static void doubles_round_once(void **state)
{
    double x[] = { 1 + 0x1p-11 + 0x1p-40,
                   1 + 0x1p-11 - 0x1p-40,
                   1 + 0x3p-11 - 0x1p-40,
                   65520 - 0x1p-30,
                   0x1p-25 + 0x1p-70,
                   0x1p-25,
                   -1 - 0x1p-11 - 0x1p-40,
                   1e300,
                   5e-324,
                   -INFINITY };
    static const uint16_t right[] = { 0x3c01, 0x3c00, 0x3c01, 0x7bff, 0x0001,
                                      0x0000, 0xbc01, 0x7c00, 0x0000, 0xfc00 };
    double y[] = { 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 0x1.fep127 + 0x1p119 - 0x1p80,
                   0x1p-134 + 0x1p-180, 1e300 };
    static const uint16_t right_brain[] = { 0x3f81, 0x3f80, 0x7f7f, 0x0001, 0x7f80 };
    uint16_t out[10];

    (void)state;
    assert_true(dtype_convert(DT_F16, out, DT_F64, x, 10));
    assert_memory_equal(out, right, sizeof right);
    assert_true(dtype_convert(DT_BF16, out, DT_F64, y, 5));
    assert_memory_equal(out, right_brain, sizeof right_brain);
}

static void every_float_pair_agrees_with_the_scalars(void **state)
{
    enum { COUNT = 3 * 256 + 5 };
    static const enum dtype types[] = { DT_F64, DT_F32, DT_F16, DT_BF16 };
    struct philox_stream s = philox_stream_make(1, "pairs");
    float x[COUNT];
    unsigned char from[COUNT * 8 + 1], to[COUNT * 8], back[COUNT * 8];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        x[i] = bf16_to_float((uint16_t)(bits_of((float)philox_normal(&s, (uint64_t)i)) >>
                                        16)); /* fits all but F16 */
        x[i] = f16_to_float(f16_from_float(x[i]));
        x[i] = bf16_to_float(bf16_from_float(x[i]));
    }
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            size_t width = dtype_bytes(types[a]), wide = dtype_bytes(types[b]);

            assert_true(dtype_convert(types[a], to, DT_F32, x, COUNT));
            memcpy(from + 1, to, COUNT * width); /* not aligned */
            memset(to, 0xee, sizeof to);
            assert_true(dtype_convert(types[b], to, types[a], from + 1, COUNT));
            assert_true(COUNT * wide == sizeof to || to[COUNT * wide] == 0xee);
            assert_true(dtype_convert(DT_F32, back, types[b], to, COUNT));
            for (int i = 0; i < COUNT; i++) {
                float y;

                memcpy(&y, back + 4 * i, 4);
                assert_true(fabsf(y - x[i]) <= 0x1p-24f); /* F16 may have cut a subnormal number */
                assert_true(fabsf(x[i]) < 0x1p-14f || y == x[i]);
            }
        }
    }
    assert_true(dtype_convert(DT_BF16, to, DT_F32, x, 0));
}

static void eight_bits_to_any_float(void **state)
{
    static const enum dtype types[] = { DT_F64, DT_F32, DT_F16, DT_BF16 };
    uint8_t codes[256];
    unsigned char to[256 * 8];
    float e4m3[256];

    (void)state;
    for (int i = 0; i < 256; i++) {
        codes[i] = (uint8_t)i;
    }
    for (int t = 0; t < 4; t++) {
        assert_true(dtype_convert(types[t], to, DT_F8_E4M3, codes, 256));
        assert_true(dtype_convert(DT_F32, e4m3, types[t], to, 256));
        for (int i = 0; i < 256; i++) {
            float right = f8_e4m3_to_float((uint8_t)i);

            assert_true(isnan(right) ? isnan(e4m3[i]) : e4m3[i] == right);
        }
        assert_true(dtype_convert(types[t], to, DT_F8_E5M2, codes, 256));
        assert_true(dtype_convert(DT_F32, e4m3, types[t], to, 256));
        for (int i = 0; i < 256; i++) {
            float right = f8_e5m2_to_float((uint8_t)i);

            assert_true(isnan(right) ? isnan(e4m3[i]) : e4m3[i] == right);
        }
    }
}

static void integers_go_where_they_fit(void **state)
{
    int64_t wide[] = { -128, 0, 127 };
    uint64_t big[] = { UINT64_MAX };
    int8_t small[3];
    uint16_t u16[3];
    int64_t i64[3];
    uint8_t truth[] = { 0, 1, 255 };

    (void)state;
    assert_true(dtype_convert(DT_I8, small, DT_I64, wide, 3));
    assert_int_equal(small[0], -128);
    assert_int_equal(small[2], 127);
    assert_true(dtype_convert(DT_I64, i64, DT_I8, small, 3));
    assert_memory_equal(i64, wide, sizeof wide);
    assert_false(dtype_convert(DT_U16, u16, DT_I64, wide, 3)); /* a negative number */
    assert_true(dtype_convert(DT_U16, u16, DT_I64, wide + 1, 2));
    wide[0] = -129;
    assert_false(dtype_convert(DT_I8, small, DT_I64, wide, 1));
    wide[0] = 128;
    assert_false(dtype_convert(DT_I8, small, DT_I64, wide, 1));
    assert_false(dtype_convert(DT_I64, i64, DT_U64, big, 1));
    assert_true(dtype_convert(DT_U64, i64, DT_U64, big, 1));
    assert_memory_equal(i64, big, 8);
    wide[0] = INT64_MIN;
    assert_true(dtype_convert(DT_I64, i64, DT_I64, wide, 1));
    assert_true(i64[0] == INT64_MIN);
    assert_true(dtype_convert(DT_I64, i64, DT_BOOL, truth, 3));
    assert_true(i64[0] == 0 && i64[1] == 1 && i64[2] == 1);
}

static void integers_become_the_nearest_float(void **state)
{
    int64_t x[] = { (1LL << 24) + 1, (1LL << 62) + (1LL << 38) + 1, (1LL << 62) + (1LL << 38),
                    INT64_MIN, -7 };
    uint64_t big[] = { UINT64_MAX, ((uint64_t)1 << 63) + 1025 };
    float to[5];
    double to64[5];
    uint16_t half[5];
    int32_t around[] = { 65519, 65520, 2049, 2051, -3 };

    (void)state;
    assert_true(dtype_convert(DT_F32, to, DT_I64, x, 5));
    assert_true(to[0] == 0x1p24f && to[1] == 0x1p62f + 0x1p39f && to[2] == 0x1p62f &&
                to[3] == -0x1p63f && to[4] == -7);
    assert_true(dtype_convert(DT_F64, to64, DT_U64, big, 2));
    assert_true(to64[0] == 0x1p64 && to64[1] == 0x1p63 + 2048);
    assert_true(dtype_convert(DT_F16, half, DT_I32, around, 5));
    assert_int_equal(half[0], 0x7bff);
    assert_int_equal(half[1], 0x7c00);
    assert_true(f16_to_float(half[2]) == 2048 && f16_to_float(half[3]) == 2052 &&
                f16_to_float(half[4]) == -3);
}

static void other_pairs_are_not_offered(void **state)
{
    static const enum dtype narrow[] = {
        DT_F8_E8M0, DT_F6_E2M3, DT_F6_E3M2, DT_F4, DT_C64, DT_NONE
    };
    unsigned char bytes[64] = { 0 }, to[64];

    (void)state;
    for (int t = 1; t < DT_COUNT; t++) {
        for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++) {
            assert_false(dtype_convert((enum dtype)t, to, narrow[i], bytes, 1));
            assert_false(dtype_convert(narrow[i], to, (enum dtype)t, bytes, 1));
        }
        assert_false(dtype_convert(DT_F8_E4M3, to, (enum dtype)t, bytes, 1));
        assert_false(dtype_convert(DT_F8_E5M2, to, (enum dtype)t, bytes, 1));
        assert_false(dtype_convert(DT_BOOL, to, (enum dtype)t, bytes, 1));
    }
    assert_false(dtype_convert(DT_I32, to, DT_F32, bytes, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_widths),
        cmocka_unit_test(widths_that_are_no_bytes_are_our_mistake),
        cmocka_unit_test(narrow_floats_mean_what_they_should),
        cmocka_unit_test(every_narrow_float_comes_back),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(doubles_round_once),
        cmocka_unit_test(every_float_pair_agrees_with_the_scalars),
        cmocka_unit_test(eight_bits_to_any_float),
        cmocka_unit_test(integers_go_where_they_fit),
        cmocka_unit_test(integers_become_the_nearest_float),
        cmocka_unit_test(other_pairs_are_not_offered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
