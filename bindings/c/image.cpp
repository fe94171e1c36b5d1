// Images that a process keeps: a tensor is handed out as a message of one segment.
#include <gantry/image.h>

#include <cstdlib>
#include <gantry/image.hpp>
#include <gantry/stage.hpp>

#include "options.hpp"
#include "parts.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

struct gantry_image : c::Handle {
  explicit gantry_image(gantry::AttachedImage made) : image(std::move(made)) {}
  gantry::AttachedImage image;
};

namespace {

/// To whom the slot of such a message goes back: nobody waits for it.
class KeptTensor final : public gantry::detail::SlotOwner {
 public:
  explicit KeptTensor(std::shared_ptr<const void> keep) noexcept : keep_(std::move(keep)) {}
  void give_back(std::uint64_t) noexcept override {}

 private:
  std::shared_ptr<const void> keep_;
};

gantry::Message message_of(gantry::LoadedTensor tensor) {
  auto segments = std::make_unique<std::vector<gantry::Segment>>(
      1, gantry::Segment{tensor.bytes, tensor.tensor});
  gantry::Message message(std::make_shared<KeptTensor>(std::move(tensor.keep)), 0, tensor.bytes,
                          gantry::MessageInfo{});
  message.set_segments(std::move(segments));
  return message;
}

/// In a stage the runtime's directory is the run's, and `gantry run` alone keeps images there.
bool is_in_run(const gantry_runtime& runtime) {
  const char* const own = std::getenv("GANTRY_DIR");
  return std::getenv(gantry::kStageEndpointsVariable) != nullptr &&
         (runtime.directory.empty() || (own != nullptr && runtime.directory == own));
}

}  // namespace

gantry_code gantry_image_attach(gantry_runtime* runtime, const char* name, std::int64_t timeout_ns,
                                gantry_image** image) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, image, "image"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    gantry::ConsumerOptions options;
    options.directory = runtime->directory;
    options.interrupt_descriptor = runtime->interrupt_descriptor;
    GANTRY_C_ASSIGN(auto attached, is_in_run(*runtime)
                                       ? gantry::stage_image(name, options, deadline)
                                       : gantry::attach_image(name, options, deadline));
    c::hand_out(image, std::move(attached));
    return {};
  });
}

gantry_code gantry_image_tensors(const gantry_image* image, std::size_t* count) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(image, "image"));
    GANTRY_C_TRY(c::check_pointer(count, "count"));
    *count = image->image.tensors().size();
    return {};
  });
}

gantry_code gantry_image_name(const gantry_image* image, std::size_t index, const char** name) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(name, "name"));
    GANTRY_C_TRY(c::check_pointer(image, "image"));
    const auto tensors = image->image.tensors();
    if (index >= tensors.size())
      return c::fail(Code::invalid_argument, "no tensor " + std::to_string(index) +
                                                 " in an image of " +
                                                 std::to_string(tensors.size()));
    *name = tensors[index].name.c_str();
    return {};
  });
}

gantry_code gantry_image_tensor(const gantry_image* image, const char* name,
                                gantry_message** tensor) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(tensor, "tensor"));
    GANTRY_C_TRY(c::check_pointer(image, "image"));
    GANTRY_C_TRY(c::check_pointer(name, "name"));
    GANTRY_C_ASSIGN(auto found, image->image.tensor(name));
    c::hand_out_message(tensor, message_of(std::move(found)), {});
    return {};
  });
}
