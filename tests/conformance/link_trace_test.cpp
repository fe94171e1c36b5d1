#include <gmock/gmock.h>

#include <filesystem>
#include <gantry/runtime.hpp>

#include "core/trace/tracer.hpp"
#include "link_suite.hpp"

// While somebody records, each message and each transfer is in the track of both ends, once, with
// its bytes.
namespace gantry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;
using trace::Event;
using trace::EventKind;
using trace::Track;

class LinkTrace : public LinkConformance {
 protected:
  LinkTrace() {
    std::string made = std::filesystem::temp_directory_path() / "gantry-link-trace-XXXXXX";
    directory_ = ::mkdtemp(made.data());
  }
  ~LinkTrace() override { std::filesystem::remove_all(directory_); }
  void SetUp() override {}

  /// Ends of which each is named for the other.
  void connect_named() {
    connect({.peer = "there"});
    ASSERT_EQ(a_->peer(), "there");
  }
  /// Three messages, two puts and a get, and what settle() says.
  void move_all() {
    auto memory = Region::create(8 * kMiB, "there");
    auto own = Region::create(8 * kMiB, "here");
    ASSERT_TRUE(memory && own);
    const auto exported = b_->export_region(*memory, RemoteAccess::read_write);
    const auto shared = a_->export_region(*own, RemoteAccess::read);
    ASSERT_TRUE(exported && shared);
    settle();
    const std::array<Bytes, 3> sizes{10, 100, 1000};
    for (const Bytes size : sizes) {
      const auto bytes = some_bytes(size, size);
      std::vector<std::byte> into(size);
      ASSERT_TRUE(a_->send_control(bytes, patience()));
      ASSERT_EQ(b_->receive_control(into, patience()).value_or(0), size);
    }
    for (const Bytes size : {Bytes{64}, 5 * kMiB})
      ASSERT_TRUE(put(Transfer::of(bytes_of(*own).first(size), exported->remote())));
    ASSERT_TRUE(get(Transfer::of(bytes_of(*own).first(3 * kMiB), exported->remote(), kMiB)));
    settle();
    a_.reset();
    b_.reset();
  }
  struct Moved {
    std::string what;
    Bytes bytes;
    std::uint32_t number;
    friend auto operator<=>(const Moved&, const Moved&) = default;
    friend void PrintTo(const Moved& moved, std::ostream* out) {
      *out << moved.what << ", " << moved.bytes << " bytes, transfer " << moved.number;
    }
  };
  static std::vector<Moved> moved_by(const Track& track, EventKind kind) {
    std::vector<Moved> found;
    for (const Event& event : track.events)
      if (event.kind == kind) found.push_back({event.what, event.bytes, event.number});
    std::ranges::sort(found);
    return found;
  }

  std::string directory_;
};

TEST_P(LinkTrace, HasEachMessageAndTransferAtBothEndsOnce) {
  const auto scope = trace::Scope::of(directory_);  // as a runtime's
  auto recording = trace::Recording::start({directory_});
  ASSERT_TRUE(recording) << recording.error().message;
  scope->look();
  ASSERT_TRUE(trace::Scope::of(directory_)->run() != 0);
  connect_named();
  ASSERT_NO_FATAL_FAILURE(move_all());
  const auto recorded = recording->finish();
  ASSERT_TRUE(recorded) << recorded.error().message;
  EXPECT_THAT(recorded->notes, IsEmpty());
  ASSERT_EQ(recorded->tracks.size(), 2u);
  const Track* here = nullptr;
  const Track* there = nullptr;
  for (const Track& track : recorded->tracks) {
    EXPECT_EQ(track.kind, trace::EndKind::link);
    EXPECT_EQ(track.channel, "there");
    const auto transfers = moved_by(track, EventKind::transfer);
    const bool is_here = std::ranges::any_of(
        transfers, [](const Moved& one) { return one.what == "put" || one.what == "get"; });
    (is_here ? here : there) = &track;
  }
  ASSERT_TRUE(here != nullptr && there != nullptr);
  EXPECT_THAT(
      moved_by(*here, EventKind::transfer),
      ElementsAre(Moved{"get", 3 * kMiB, 3}, Moved{"put", 64, 1}, Moved{"put", 5 * kMiB, 2}));
  std::vector<Moved> far{{"landed", 64, 1}, {"landed", 5 * kMiB, 2}};
  // Where this end reads the far one's memory itself, that one sees nothing of it.
  const bool is_served =
      std::ranges::any_of(there->events, [](const Event& event) { return event.what == "served"; });
  if (is_served) far.push_back({"served", 3 * kMiB, 3});
  EXPECT_THAT(moved_by(*there, EventKind::transfer), UnorderedElementsAreArray(far));
  EXPECT_TRUE(is_served || !std::string_view(GetParam().name).starts_with("stream"));
  // settle() says one byte each way, twice.
  EXPECT_THAT(moved_by(*here, EventKind::control),
              ElementsAre(Moved{"received", 1, 0}, Moved{"received", 1, 0}, Moved{"sent", 1, 0},
                          Moved{"sent", 1, 0}, Moved{"sent", 10, 0}, Moved{"sent", 100, 0},
                          Moved{"sent", 1000, 0}));
  EXPECT_THAT(moved_by(*there, EventKind::control),
              ElementsAre(Moved{"received", 1, 0}, Moved{"received", 1, 0},
                          Moved{"received", 10, 0}, Moved{"received", 100, 0},
                          Moved{"received", 1000, 0}, Moved{"sent", 1, 0}, Moved{"sent", 1, 0}));
}

TEST_P(LinkTrace, HasTheWaitForThePeer) {
  const auto scope = trace::Scope::of(directory_);
  auto recording = trace::Recording::start({directory_});
  ASSERT_TRUE(recording) << recording.error().message;
  scope->look();
  ASSERT_TRUE(trace::Scope::of(directory_)->run() != 0);
  connect_named();
  std::array<std::byte, 8> into{};
  const auto received = b_->receive_control(into, Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_EQ(received.error().code, Code::timed_out);
  const auto recorded = recording->finish();
  ASSERT_TRUE(recorded) << recorded.error().message;
  std::size_t waits = 0;
  for (const Track& track : recorded->tracks)
    for (const Event& event : track.events) {
      if (event.kind != EventKind::wait) continue;
      EXPECT_EQ(event.what, "the peer");
      ++waits;
    }
  EXPECT_GE(waits, 1u);
}

INSTANTIATE_TEST_SUITE_P(Links, LinkTrace, testing::ValuesIn(kLinks),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace gantry
