#include "base/arena.h"
#include "base/map.h"
#include "support/expect.h"

static void an_empty_map_finds_nothing(void **state)
{
    struct map m = { 0 };
    void *value = &m;

    (void)state;
    assert_false(map_find(&m, "a", &value));
    assert_false(map_find(&m, "", NULL));
    assert_ptr_equal(value, &m);
    map_release(&m);
}

static void a_value_is_replaced_in_place(void **state)
{
    struct map m = { 0 };
    int first, second;
    void *value;

    (void)state;
    map_put(&m, "", &first);
    map_put(&m, "b", &first);
    map_put(&m, "", &second);
    assert_int_equal(m.count, 2);
    assert_true(map_find(&m, "", &value));
    assert_ptr_equal(value, &second);
    assert_string_equal(m.entries[0].key, "");
    map_put(&m, "null", NULL);
    assert_true(map_find(&m, "null", &value));
    assert_null(value);
    map_release(&m);
    assert_int_equal(m.count, 0);
    map_release(&m);
}

static void many_keys_are_found_in_order(void **state)
{
    enum { COUNT = 20000 };
    struct arena a = { 0 };
    struct map m = { 0 };

    (void)state;
    for (uintptr_t i = 0; i < COUNT; i++) {
        map_put(&m, arena_format(&a, "model.layers.%d.weight", (int)i * 7 % COUNT), (void *)i);
    }
    assert_int_equal(m.count, COUNT);
    for (uintptr_t i = 0; i < COUNT; i++) {
        char *key = arena_format(&a, "model.layers.%d.weight", (int)i * 7 % COUNT);
        void *value;

        assert_true(map_find(&m, key, &value));
        assert_int_equal((uintptr_t)value, i);
        assert_string_equal(m.entries[i].key, key);
        assert_false(map_find(&m, key + 1, NULL));
    }
    map_release(&m);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing),
        cmocka_unit_test(a_value_is_replaced_in_place),
        cmocka_unit_test(many_keys_are_found_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
