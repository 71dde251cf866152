#include "model/family.h"

#include <string.h>

const struct family families[] = {
    {
        .name = "llama",
        .architecture = "LlamaForCausalLM",
        .recipe_types = "llama_v3 llama_v2 deepseek_r1_llama_v3",
        .biases_optional = true,
    },
};

const int family_count = sizeof families / sizeof families[0];

const struct family *family_find(const char *model_type)
{
    for (int i = 0; model_type != NULL && i < family_count; i++) {
        if (strcmp(families[i].name, model_type) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

/* Is `word` one of the words, separated by blanks, of `list`? */
static bool word_is_in(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; length > 0 && *at != '\0';) {
        size_t here = strcspn(at, " ");

        if (here == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += here;
        at += strspn(at, " ");
    }
    return false;
}

const struct family *family_of_recipe(const char *model_type)
{
    for (int i = 0; model_type != NULL && i < family_count; i++) {
        if (word_is_in(families[i].recipe_types, model_type)) {
            return &families[i];
        }
    }
    return NULL;
}
