#pragma once  // tools/gantry/image/codec_choice.hpp: what `gantry pack --codec auto` comes to.

#include <gantry/image.hpp>

namespace gantry::cli {

/// Whether an image at `to` loads quicker packed as tightly as can be or as it is, on this machine
/// and disk and now: packs the first 192 MiB of it both ways beside `to`, and times both. `why`
/// says what came of it.
struct CodecDecision {
  std::optional<Codec> codec;  ///< As ImageOptions::codec.
  std::string why;
};
[[nodiscard]] Result<CodecDecision> decide_codec(const std::string& to,
                                                 const std::vector<ImageTensor>& tensors,
                                                 const ImageSource& source);

}  // namespace gantry::cli
