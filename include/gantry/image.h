#pragma once  // gantry/image.h: images that a process keeps in memory for all others.

#include <gantry/gantry.h>

#ifdef __cplusplus
extern "C" {
#endif

/// An image of `gantry keep`, mapped here read-only. Any thread may use it. Freed by gantry_free();
/// its tensors stay valid after that.
typedef struct gantry_image gantry_image;

/// Maps the image of that name and copies only its tables. Waits for its keeper, and until the
/// image is loaded; GANTRY_TIMED_OUT after `timeout_ns`. GANTRY_INVALID_ARGUMENT: the owner of the
/// name does not keep images. GANTRY_NOT_FOUND at once in a stage of `gantry run` whose pipeline
/// file does not have an image of that name. Other codes: the error that prevents the keeper from
/// loading the image, with its reason.
GANTRY_C_API gantry_code gantry_image_attach(gantry_runtime* runtime, const char* name,
                                             int64_t timeout_ns, gantry_image** image);
/// Returns the number of tensors.
GANTRY_C_API gantry_code gantry_image_tensors(const gantry_image* image, size_t* count);
/// Returns the name of a tensor; `index` counts tensors in the order of their bytes. The name is
/// valid as long as the handle. GANTRY_INVALID_ARGUMENT: the index is too large.
GANTRY_C_API gantry_code gantry_image_name(const gantry_image* image, size_t index,
                                           const char** name);
/// Returns a tensor as a message of one segment; gantry_message_segment() returns its bytes.
/// GANTRY_NOT_FOUND: unknown name.
GANTRY_C_API gantry_code gantry_image_tensor(const gantry_image* image, const char* name,
                                             gantry_message** tensor);

#ifdef __cplusplus
}
#endif
