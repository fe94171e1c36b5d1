#include "link/socket/mapped_copies.hpp"

#include "base/event.hpp"
#include "base/result.hpp"

namespace gantry {
namespace {

constexpr std::size_t kDepth = 256;
constexpr std::size_t kMostRegions = 4096;
constexpr Bytes kMoveBytes = Bytes{8} << 20;  // bounds how long an inline engine holds the lock

}  // namespace

Result<std::unique_ptr<MappedCopies>> MappedCopies::make(std::shared_ptr<Engine> engine) {
  if (engine == nullptr)
    return fail(Code::invalid_argument, "a shared link without an engine",
                "take runtime.default_engine()");
  GANTRY_ASSIGN(auto lane, engine->open_lane({kDepth, LaneOptions::Full::refuse}));
  GANTRY_ASSIGN(const int event, lane->event_descriptor());
  return std::unique_ptr<MappedCopies>(new MappedCopies(std::move(engine), std::move(lane), event));
}

MappedCopies::MappedCopies(std::shared_ptr<Engine> engine, std::unique_ptr<Lane> lane, int event)
    : engine_(std::move(engine)),
      lane_(std::move(lane)),
      event_(event),
      moves_itself_(engine_->capabilities().moves_itself) {}

Result<void> MappedCopies::import(std::uint64_t key, ReceivedFd descriptor, Bytes size) {
  if (regions_.size() >= kMostRegions || regions_.contains(key))
    return fail(Code::peer_misbehaved, "it shares more regions than there can be, or one twice");
  GANTRY_ASSIGN(Region region, Region::import(descriptor.take().release(), size));
  region.close_descriptor();
  regions_.emplace(key, std::make_shared<const Region>(std::move(region)));
  return {};
}

bool MappedCopies::add(const Job& job, const RowCursor& to, std::uint64_t key, Bytes offset,
                       Bytes rows, Bytes row_bytes, Bytes stride) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return false;
  const auto& source = found->second;
  if (!rows_fit(source->size(), offset, rows, row_bytes, stride)) return false;
  jobs_.push_back({job, to, {source->data() + offset, rows, row_bytes, stride}, source, {}});
  submit();
  return true;
}

void MappedCopies::submit() {
  for (Copy& copy : jobs_)
    while (copy.to.left() > 0)
      if (!submit_some(copy)) return;
}

// False: the lane is full.
bool MappedCopies::submit_some(Copy& copy) {
  if (copy.job.has_failed) {
    copy.to = copy.from = {};
    return true;
  }
  const ByteSpan to = copy.to.run();
  const ByteSpan from = copy.from.run();
  const Bytes bytes = std::min({to.size(), from.size(), kMoveBytes});
  const auto ticket = lane_->submit(Move::copy(to.first(bytes), from.first(bytes)));
  if (!ticket && ticket.error().code == Code::busy) return false;
  copy.job.has_failed = !ticket;
  if (!ticket) return true;
  copy.moves.push_back(*ticket);
  copy.to.advance(bytes);
  copy.from.advance(bytes);
  return true;
}

void MappedCopies::reap(Copy& copy) const {
  while (!copy.moves.empty()) {
    const Outcome outcome = lane_->outcome(copy.moves.front());
    if (outcome == Outcome::pending) return;
    if (outcome == Outcome::failed) copy.job.has_failed = true;
    copy.moves.pop_front();
  }
}

std::optional<MappedCopies::Job> MappedCopies::next_ended() {
  if (jobs_.empty()) return {};
  drain(event_);
  lane_->poll();
  for (Copy& copy : jobs_) reap(copy);
  submit();
  if (!jobs_.front().is_over()) reap(jobs_.front());  // an inline engine is done by now
  if (!jobs_.front().is_over()) return {};
  const Job job = jobs_.front().job;
  jobs_.pop_front();
  return job;
}

void MappedCopies::finish_puts_to(std::uint64_t key) {
  for (Copy& copy : jobs_) {
    if (!copy.job.is_put || copy.job.key != key) continue;
    copy.job.has_failed = true;  // what has not begun never will
    copy.to = copy.from = {};
    if (!copy.moves.empty()) static_cast<void>(lane_->wait(copy.moves.back()));
  }
}

void MappedCopies::stop() noexcept {
  lane_->cancel();
  for (Copy& copy : jobs_)
    if (!copy.moves.empty()) static_cast<void>(lane_->wait(copy.moves.back()));
  jobs_.clear();
}

}  // namespace gantry
