// Spans through trace.h: a recording has them, beside what was sent in them.
#include <gantry/trace.h>
#include <gtest/gtest.h>

#include <gantry/runtime.hpp>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

class Spans : public Ends {
 protected:
  [[nodiscard]] trace::Recording record() const {
    auto recording = trace::Recording::start({folder_});
    if (!recording) throw std::runtime_error(recording.error().message);
    return std::move(*recording);
  }
};

const trace::Event* event_of(const trace::Trace& trace, trace::EventKind kind) {
  const trace::Event* found = nullptr;
  for (const trace::Track& track : trace.tracks)
    for (const trace::Event& event : track.events)
      if (event.kind == kind) found = &event;
  return found;
}

TEST_F(Spans, AreInTheTraceAroundWhatWasSentInThem) {
  trace::Recording recording = record();
  const auto out = producer();
  const auto in = consumer();
  const std::uint64_t began = gantry_span_begin();
  EXPECT_NE(began, 0u);
  send(out, bytes_of(1, 100'000));
  EXPECT_OK(gantry_span_end(began, "send one"));
  const auto trace = recording.finish();
  ASSERT_TRUE(trace) << trace.error().message;
  const trace::Event* const span = event_of(*trace, trace::EventKind::span);
  const trace::Event* const sent = event_of(*trace, trace::EventKind::send);
  ASSERT_TRUE(span != nullptr && sent != nullptr);
  EXPECT_EQ(span->what, "send one");
  EXPECT_LE(span->begin_ns, sent->begin_ns);
  EXPECT_GE(span->begin_ns + span->duration_ns, sent->begin_ns + sent->duration_ns);
}

TEST_F(Spans, WithoutANameAreRefusedAlsoWhileNobodyRecords) {
  EXPECT_OK(gantry_span_end(0, "decode"));
  EXPECT_REFUSED(gantry_span_end(0, nullptr), GANTRY_INVALID_ARGUMENT, "the span has none",
                 "decode");
  EXPECT_REFUSED(gantry_span_end(0, ""), GANTRY_INVALID_ARGUMENT, "the span has none", "decode");
}

}  // namespace
}  // namespace gantry::c::test
