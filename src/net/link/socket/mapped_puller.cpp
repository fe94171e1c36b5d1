#include "net/link/socket/mapped_puller.hpp"

#include <fcntl.h>

#include "core/base/event.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

constexpr std::size_t kDepth = 256;
constexpr std::size_t kMostRegions = 4096;
constexpr Bytes kMoveBytes = Bytes{8} << 20;  // bounds how long an inline engine holds the lock

}  // namespace

Result<std::unique_ptr<Puller>> MappedPuller::make(std::shared_ptr<Engine> engine) {
  if (engine == nullptr)
    return fail(Code::invalid_argument, "a shared link without an engine",
                "take runtime.default_engine()");
  GANTRY_ASSIGN(auto lane, engine->open_lane({kDepth, LaneOptions::Full::refuse}));
  GANTRY_ASSIGN(const int event, lane->event_descriptor());
  return std::unique_ptr<Puller>(new MappedPuller(std::move(engine), std::move(lane), event));
}

MappedPuller::MappedPuller(std::shared_ptr<Engine> engine, std::unique_ptr<Lane> lane, int event)
    : engine_(std::move(engine)),
      lane_(std::move(lane)),
      event_(event),
      moves_itself_(engine_->capabilities().moves_itself) {}

std::string MappedPuller::about() const {
  return fmt::format("engine {} copies it out of a mapped region", engine_->name());
}

Result<void> MappedPuller::take_hello(ConstByteSpan) {
  return fail(Code::peer_misbehaved, "it is no shared link");
}

std::optional<Puller::Share> MappedPuller::share(std::uint64_t key, ByteSpan memory,
                                                 int descriptor) {
  if (descriptor < 0) return {};
  Share share{LinkRecord{LinkRecord::Kind::share}, Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0))};
  if (!share.descriptor) return {};  // none is left: it takes the socket
  share.record.key = key;
  share.record.row_bytes = memory.size();
  return share;
}

Result<void> MappedPuller::import(const LinkRecord& record, ReceivedFd descriptor) {
  if (!descriptor) return fail(Code::peer_misbehaved, "a shared region without a descriptor");
  if (regions_.size() >= kMostRegions || has(record.key))
    return fail(Code::peer_misbehaved, "it shares more regions than there can be, or one twice");
  if (record.row_bytes > kMostMappedBytes || mapped_bytes_ > kMostMappedBytes - record.row_bytes)
    return fail(Code::peer_misbehaved,
                fmt::format("it shares more than {} bytes at a time", kMostMappedBytes));
  GANTRY_ASSIGN(Region region, Region::import(descriptor.take().release(), record.row_bytes));
  region.close_descriptor();
  mapped_bytes_ += region.size();
  regions_.emplace(record.key, std::make_shared<const Region>(std::move(region)));
  return {};
}

void MappedPuller::forget(std::uint64_t key) noexcept {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return;
  mapped_bytes_ -= found->second->size();
  regions_.erase(found);
}

Puller::Begun MappedPuller::begin(const Job& job, const RowCursor& to, const Source& source) {
  const auto found = regions_.find(source.key);
  if (found == regions_.end()) return Begun::no;
  const auto& region = found->second;
  if (!rows_fit(region->size(), source.offset, source.rows, source.row_bytes, source.stride))
    return Begun::beyond;
  const RowCursor from(region->data() + source.offset, source.rows, source.row_bytes,
                       source.stride);
  jobs_.push_back({job, to, from, region, {}});
  submit();
  return Begun::yes;
}

void MappedPuller::submit() {
  for (Copy& copy : jobs_)
    while (copy.to.left() > 0)
      if (!submit_some(copy)) return;
}

// False: the lane is full.
bool MappedPuller::submit_some(Copy& copy) {
  const ByteSpan to = copy.to.run();
  const ByteSpan from = copy.from.run();
  const Bytes bytes = std::min({to.size(), from.size(), kMoveBytes});
  const auto ticket = lane_->submit(Move::copy(to.first(bytes), from.first(bytes)));
  if (!ticket && ticket.error().code == Code::busy) return false;
  if (!ticket) {
    copy.fail(LinkStatus::fault);
    return true;
  }
  copy.moves.push_back(*ticket);
  copy.to.advance(bytes);
  copy.from.advance(bytes);
  return true;
}

void MappedPuller::reap(Copy& copy) const {
  while (!copy.moves.empty()) {
    const Outcome outcome = lane_->outcome(copy.moves.front());
    if (outcome == Outcome::pending) return;
    if (outcome == Outcome::failed) copy.fail(LinkStatus::fault);
    copy.moves.pop_front();
  }
}

std::optional<Puller::Job> MappedPuller::next_ended() {
  if (jobs_.empty()) return {};
  drain(event_);
  lane_->poll();
  for (Copy& copy : jobs_) reap(copy);
  submit();
  reap(jobs_.front());  // an inline engine is done by now
  if (!jobs_.front().is_over()) return {};
  const Job job = jobs_.front().job;
  jobs_.pop_front();
  return job;
}

void MappedPuller::finish_puts_to(std::uint64_t key) {
  for (Copy& copy : jobs_) {
    if (!copy.job.is_put || copy.job.key != key) continue;
    copy.fail(LinkStatus::withdrawn);
    if (!copy.moves.empty()) static_cast<void>(lane_->wait(copy.moves.back()));
  }
}

void MappedPuller::stop() noexcept {
  lane_->cancel();
  for (Copy& copy : jobs_)
    if (!copy.moves.empty()) static_cast<void>(lane_->wait(copy.moves.back()));
  jobs_.clear();
}

}  // namespace gantry
