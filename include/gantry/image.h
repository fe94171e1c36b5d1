#pragma once  // gantry/image.h: images that a process keeps in memory for all others.

#include <gantry/gantry.h>

#ifdef __cplusplus
extern "C" {
#endif

/// An image that `gantry keep` has, mapped here and read-only. Any thread; freed by gantry_free(),
/// after which tensors that were taken stay.
typedef struct gantry_image gantry_image;

/// Maps the image of that name, and copies nothing but its tables. Waits up to `timeout_ns` for its
/// keeper, and for the image to be loaded: then GANTRY_TIMED_OUT. GANTRY_INVALID_ARGUMENT: what has
/// the name keeps no image. GANTRY_NOT_FOUND at once: in a stage of `gantry run`, whose pipeline
/// file has no image of that name. Other codes: what keeps the keeper from loading it, with its
/// reason.
GANTRY_C_API gantry_code gantry_image_attach(gantry_runtime* runtime, const char* name,
                                             int64_t timeout_ns, gantry_image** image);
/// How many tensors it has.
GANTRY_C_API gantry_code gantry_image_tensors(const gantry_image* image, size_t* count);
/// The name of a tensor, in the order of their bytes; valid as long as the handle.
/// GANTRY_INVALID_ARGUMENT: there is none of that index.
GANTRY_C_API gantry_code gantry_image_name(const gantry_image* image, size_t index,
                                           const char** name);
/// A tensor as a message of one segment: gantry_message_segment() has its bytes. GANTRY_NOT_FOUND.
GANTRY_C_API gantry_code gantry_image_tensor(const gantry_image* image, const char* name,
                                             gantry_message** tensor);

#ifdef __cplusplus
}
#endif
