#include <algorithm>
#include <deque>
#include <gantry/channel/status.hpp>

#include "pipeline/job/job_check.hpp"
#include "pipeline/run/caught.hpp"
#include "pipeline/stage/stage_executor.hpp"

namespace gantry {
namespace {

StageCallbacks::Received received_of(Message message) {
  StageCallbacks::Received received;
  const auto held = std::make_shared<const Message>(std::move(message));
  for (std::size_t i = 0; i < held->segments(); ++i)
    received.segments.push_back(held->segment(i).bytes);
  received.info = held->info();
  received.keep = held;
  return received;
}

}  // namespace

StageCallbacks StageCallbacks::of(Consumer& from, Producer& to) {
  // Loans of results in flight, the oldest first. Their run holds them. After a run that failed
  // they are gone, except what an abandoned kernel keeps.
  struct Lent {
    std::uint64_t sequence;
    std::weak_ptr<Loan> loan;
  };
  const auto lent = std::make_shared<std::deque<Lent>>();
  return {.receive = [&from](Deadline deadline) -> Result<Received> {
            GANTRY_ASSIGN(Message message, from.receive(deadline));
            return received_of(std::move(message));
          },
          .place = [&to, lent](const MessageInfo& info, Bytes size,
                               Deadline deadline) -> Result<Destination> {
            GANTRY_ASSIGN(Loan taken, to.loan(size, deadline));
            const auto loan = std::make_shared<Loan>(std::move(taken));
            lent->push_back({info.sequence, loan});
            return Destination{loan->bytes(), loan};
          },
          .committed =
              [&to, lent](const MessageInfo& info) {
                SendOptions options;
                options.type = info.type;
                options.user = info.user;
                while (lent->size() > 1 &&
                       (lent->front().loan.expired() || lent->front().sequence != info.sequence))
                  lent->pop_front();
                const auto result = lent->front().loan.lock();
                lent->pop_front();
                return to.publish(std::move(*result), options);
              },
          .places = ProducerOptions::kMaxSlots,
          .holds = from.explain().depth};
}

Result<PipelineStageReport> run_stage(Device& device, const PipelineJob& job,
                                      const StageCallbacks& ends, const PipelineOptions& options) {
  return caught([&]() -> Result<PipelineStageReport> {
    GANTRY_TRY(check_stage(job, options));
    const auto begin = Deadline::Clock::now();
    StageExecutor executor(device, job, options, ends);
    GANTRY_TRY(executor.open());
    GANTRY_TRY(executor.run());
    PipelineStageReport report = executor.report();
    report.elapsed = Deadline::Clock::now() - begin;
    return report;
  });
}

Result<PipelineStageReport> run_stage(Device& device, const PipelineJob& job, Consumer& from,
                                      Producer& to, const PipelineOptions& options) {
  return run_stage(device, job, StageCallbacks::of(from, to), options);
}

}  // namespace gantry
