/*
 * Hugging Face directories: configuration in, configuration and weights out.
 *
 * Both layouts of config.json are read: theta and scaling in rope_parameters (transformers 5) or in
 * rope_theta and rope_scaling (with rope_type, or type in older files); dtype or torch_dtype.
 * Written is the layout that both read.
 */
#ifndef ROUX_MODEL_HF_H
#define ROUX_MODEL_HF_H

#include "base/arena.h"
#include "model/spec.h"

/*
 * Reads <folder>/config.json. Unknown keys are ignored; what would change the numbers and is not
 * built (another model_type, hidden_act, rope_type, attention_dropout > 0, quantization_config,
 * ...) is ERR_UNSUPPORTED by name. Wrong types and ranges: ERR_FORMAT naming file and key.
 */
MUST_USE status hf_config_read(struct model_spec *out, struct arena *a, const char *folder);

/* config.json and generation_config.json into an existing folder. `dtype`: "float32",
 * "bfloat16". */
MUST_USE status hf_config_write(const struct model_spec *s, const char *folder, const char *dtype);

#endif
