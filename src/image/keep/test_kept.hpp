#pragma once  // keep/test_kept.hpp: images in the hands of a keeper, and its changes.

#include <gantry/image.hpp>
#include <gantry/runtime.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/event.hpp"
#include "image/test_image.hpp"

namespace gantry::test {

inline Content content_of(unsigned seed, Bytes mebibytes = 5) {
  Content content;
  content.add(tensor("embedding", types::bf16, {3, 512, 1024}));
  content.add(tensor("nothing", types::f32, {0, 4}));
  content.add(tensor("bias", types::u8, {3}, 1));
  content.add(tensor("empty.device", types::u8, {0}, 2));
  content.add(tensor("head", types::u8, {static_cast<std::int64_t>(mebibytes << 20)}, 3));
  for (std::size_t i = 0; i < content.data.size(); ++i)
    content.data[i] = weights(content.data[i].size(), seed * 10 + static_cast<unsigned>(i));
  return content;
}

/// A keeper in a thread, whose changes can be waited for.
class KeepThread {
 public:
  explicit KeepThread(std::vector<KeptFile> files, KeepOptions options) {
    options.interrupt_descriptor = stop_.get();
    auto opened = ImageKeeper::open(files, options);
    EXPECT_TRUE(opened) << to_string(opened.error());
    keeper_.emplace(*std::move(opened));
    thread_ = std::thread([this] {
      const auto ended = keeper_->serve([this](const KeptImage& one) { note(one); });
      EXPECT_EQ(ended.error().code, Code::interrupted);
    });
  }
  ~KeepThread() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    ring(stop_.get());
    thread_.join();
    keeper_.reset();
  }
  /// The first change of which this is true, behind those that were asked for before.
  KeptImage change(const std::function<bool(const KeptImage&)>& is_it) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return changes_.size() > looked_at_; });
      if (const KeptImage& one = changes_[looked_at_++]; is_it(one)) return one;
    }
  }
  KeptImage there(const std::string& name) {
    return change([&](const KeptImage& one) { return one.name == name && one.is_there; });
  }
  KeptImage gone(const std::string& name) {
    return change([&](const KeptImage& one) {
      return one.name == name && !one.is_there && one.trouble.empty();
    });
  }
  KeptImage trouble(const std::string& name) {
    return change([&](const KeptImage& one) { return one.name == name && !one.trouble.empty(); });
  }

 private:
  void note(const KeptImage& one) {
    const std::lock_guard lock(mutex_);
    changes_.push_back(one);
    changed_.notify_all();
  }
  Fd stop_ = *make_event();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<KeptImage> changes_;
  std::size_t looked_at_ = 0;
  std::optional<ImageKeeper> keeper_;
  std::thread thread_;
};

class Kept : public testing::Test {
 protected:
  Kept() { keep_.directory = ends_.directory = channels_.path(); }

  KeptFile file(const std::string& name, const Content& content, const ImageOptions& how = {}) {
    const auto facts = content.pack(folder_.file(name), how);
    EXPECT_TRUE(facts) << to_string(facts.error());
    return {name, folder_.file(name)};
  }
  Result<AttachedImage> attach(const std::string& name, Deadline deadline = Deadline::never()) {
    return attach_image(name, ends_, deadline);
  }
  /// Of one image; no name: of any.
  [[nodiscard]] bool has_readers(const std::string& name = {}) const {
    const auto channels = list_channels(channels_.path());
    return !channels || std::ranges::any_of(*channels, [&](const ChannelStatus& one) {
      return (name.empty() || one.name == name) && (!one.answered || !one.consumers.empty());
    });
  }
  static void expect_all(const AttachedImage& image, const Content& content) {
    ASSERT_EQ(image.tensors().size(), content.tensors.size());
    for (std::size_t i = 0; i < content.tensors.size(); ++i) {
      const auto loaded = image.tensor(content.tensors[i].name);
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      ASSERT_EQ(loaded->bytes.size(), content.data[i].size());
      EXPECT_TRUE(same(loaded->bytes, content.data[i])) << content.tensors[i].name;
      EXPECT_TRUE(loaded->tensor.type == content.tensors[i].tensor.type);
      EXPECT_EQ(loaded->tensor.shape, content.tensors[i].tensor.shape);
    }
  }

  Folder folder_, channels_;
  KeepOptions keep_;
  ConsumerOptions ends_;
};

}  // namespace gantry::test
