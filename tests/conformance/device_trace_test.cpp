#include <gmock/gmock.h>

#include <filesystem>
#include <gantry/runtime.hpp>

#include "core/trace/tracer.hpp"
#include "device_suite.hpp"

// While somebody records, each operation of a queue is in the queue's track once, in its order.
namespace gantry {
namespace {

using testing::ElementsAre;
using trace::Event;
using trace::EventKind;
using trace::Track;

class DeviceTrace : public DeviceConformance {
 protected:
  DeviceTrace() {
    std::string made = std::filesystem::temp_directory_path() / "gantry-device-trace-XXXXXX";
    directory_ = ::mkdtemp(made.data());
  }
  ~DeviceTrace() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

/// "copy-in 4000".
std::vector<std::string> operations_of(const trace::Trace& trace, const std::string& queue) {
  std::vector<std::string> found;
  for (const Track& track : trace.tracks) {
    if (track.kind != trace::EndKind::queue || !track.channel.ends_with(queue)) continue;
    std::uint64_t last_ns = 0;
    for (const Event& event : track.events) {
      if (event.kind != EventKind::operation) continue;
      EXPECT_GE(event.begin_ns, last_ns) << event.what;  // a queue does one after another
      last_ns = event.begin_ns;
      found.push_back(event.what + (event.bytes > 0 ? " " + std::to_string(event.bytes) : ""));
    }
  }
  return found;
}

TEST_P(DeviceTrace, HasEachChunkInTheTrackOfEachQueueOnce) {
  constexpr std::uint32_t kCount = 1000;
  const DeviceBuffer there = buffer(4 * kCount);
  const auto scope = trace::Scope::of(directory_);  // as a runtime's
  auto recording = trace::Recording::start({directory_});
  ASSERT_TRUE(recording) << recording.error().message;
  scope->look();
  ASSERT_TRUE(trace::Scope::of(directory_)->run() != 0);
  Words words(kCount);
  for (std::uint32_t chunk = 1; chunk <= 3; ++chunk) {
    const std::uint32_t count = chunk * 100;
    ok(in_->copy_in(there, 0, std::as_bytes(std::span(words).first(count))));
    ok(in_->drain());
    ok(compute_->launch(kernel("add"), {there, count, 1u}, LaunchRange::linear(count)));
    ok(compute_->drain());
    ok(out_->copy_out(there, 0, std::as_writable_bytes(std::span(words).first(count))));
    ok(out_->drain());
  }
  const auto recorded = recording->finish();
  ASSERT_TRUE(recorded) << recorded.error().message;
  EXPECT_THAT(operations_of(*recorded, "(copy-in)"),
              ElementsAre("copy-in 400", "copy-in 800", "copy-in 1200"));
  EXPECT_THAT(operations_of(*recorded, "(compute)"),
              ElementsAre("launch add", "launch add", "launch add"));
  EXPECT_THAT(operations_of(*recorded, "(copy-out)"),
              ElementsAre("copy-out 400", "copy-out 800", "copy-out 1200"));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTrace, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace gantry
