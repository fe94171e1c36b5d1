#include <algorithm>
#include <deque>
#include <gantry/status.hpp>

#include "pipeline/caught.hpp"
#include "pipeline/job_check.hpp"
#include "pipeline/stage_conveyor.hpp"

namespace gantry {
namespace {

StageEnds::Arrival arrival_of(Message message) {
  StageEnds::Arrival arrival;
  const auto held = std::make_shared<const Message>(std::move(message));
  for (std::size_t i = 0; i < held->segments(); ++i)
    arrival.segments.push_back(held->segment(i).bytes);
  arrival.info = held->info();
  arrival.keep = held;
  return arrival;
}

}  // namespace

StageEnds StageEnds::of(Consumer& from, Producer& to) {
  // Of results under way, the oldest first. Their run holds them: of one that failed they are gone,
  // but for what a kernel keeps that was given up.
  struct Lent {
    std::uint64_t sequence;
    std::weak_ptr<Loan> loan;
  };
  const auto lent = std::make_shared<std::deque<Lent>>();
  return {.receive = [&from](Deadline deadline) -> Result<Arrival> {
            GANTRY_ASSIGN(Message message, from.receive(deadline));
            return arrival_of(std::move(message));
          },
          .place = [&to, lent](const MessageInfo& info, Bytes size,
                               Deadline deadline) -> Result<Landing> {
            GANTRY_ASSIGN(Loan taken, to.loan(size, deadline));
            const auto loan = std::make_shared<Loan>(std::move(taken));
            lent->push_back({info.sequence, loan});
            return Landing{loan->bytes(), loan};
          },
          .landed =
              [&to, lent](const MessageInfo& info) {
                SendOptions options;
                options.type = info.type;
                options.user = info.user;
                while (lent->size() > 1 &&
                       (lent->front().loan.expired() || lent->front().sequence != info.sequence))
                  lent->pop_front();
                const auto landed = lent->front().loan.lock();
                lent->pop_front();
                return to.publish(std::move(*landed), options);
              },
          .places = ChannelOptions::kMaxSlots,
          .holds = from.explain().depth};
}

Result<PipelineStageReport> run_stage(Device& device, const PipelineJob& job, const StageEnds& ends,
                                      const PipelineOptions& options) {
  return caught([&]() -> Result<PipelineStageReport> {
    GANTRY_TRY(check_stage(job, options));
    const auto begin = Deadline::Clock::now();
    StageConveyor conveyor(device, job, options, ends);
    GANTRY_TRY(conveyor.open());
    GANTRY_TRY(conveyor.run());
    PipelineStageReport report = conveyor.report();
    report.elapsed = Deadline::Clock::now() - begin;
    return report;
  });
}

Result<PipelineStageReport> run_stage(Device& device, const PipelineJob& job, Consumer& from,
                                      Producer& to, const PipelineOptions& options) {
  return run_stage(device, job, StageEnds::of(from, to), options);
}

}  // namespace gantry
