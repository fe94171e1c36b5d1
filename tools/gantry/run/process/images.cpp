#include "run/process/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <gantry/runtime.hpp>
#include <system_error>

#include "errors.hpp"

namespace gantry::run {

Result<std::unique_ptr<RunImages>> RunImages::start(const Pipeline& pipeline,
                                                    const std::string& directory) {
  std::unique_ptr<RunImages> images(new RunImages);
  if (pipeline.images.empty()) return images;
  for (Pipe* const pipe : {&images->stop_, &images->failed_}) {
    Result<Pipe> made = Pipe::create();
    if (!made) return tl::unexpected(made.error());
    *pipe = std::move(*made);
  }
  KeepOptions options;
  options.directory = directory;
  options.interrupt_descriptor = images->stop_.read_end.get();
  if (auto io = make_file_io("io_uring")) options.file_io = *io;
  std::vector<KeptFile> files;
  for (const ImageFile& image : pipeline.images) files.push_back({image.name, image.file});
  auto keeper = ImageKeeper::open(files, options);
  if (!keeper) {
    const Error& why = keeper.error();  // it begins with the file's name, if it is about a file
    const auto found = std::ranges::find_if(pipeline.images, [&](const ImageFile& one) {
      return why.message.starts_with(one.file + ":");
    });
    const ImageFile& image = found == pipeline.images.end() ? pipeline.images.front() : *found;
    return tl::unexpected(
        pipeline.source.error(image.at, "images." + image.name, why.message, why.hint));
  }
  images->keeper_.emplace(*std::move(keeper));
  try {
    images->thread_ = std::thread([one = images.get()] { one->serve(); });
  } catch (const std::system_error& error) {
    return tl::unexpected(
        Error{Code::system, fmt::format("starting a thread that keeps images: {}", error.what()),
              "raise the limit of processes (ulimit -u)"});
  }
  return images;
}

RunImages::~RunImages() {
  static_cast<void>(stop());
}

// What cannot be loaded ends the run: a stage would wait for it.
void RunImages::serve() {
  const auto ended = keeper_->serve([this](const KeptImage& image) {
    if (!image.trouble.empty()) fail(fmt::format("images.{}: {}", image.name, image.trouble));
  });
  if (ended.error().code != Code::interrupted)
    fail(fmt::format("images: {}", to_string(ended.error())));
}

void RunImages::fail(std::string why) {
  const std::lock_guard lock(mutex_);
  if (!end_) return;
  end_ = tl::unexpected(Error{Code::aborted, std::move(why), {}});
  failed_.write_end.reset();
}

Result<void> RunImages::stop() {
  stop_.write_end.reset();
  if (thread_.joinable()) thread_.join();
  keeper_.reset();
  const std::lock_guard lock(mutex_);
  return end_;
}

}  // namespace gantry::run
