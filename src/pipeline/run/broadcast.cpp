#include "pipeline/run/broadcast.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "pipeline/run/file_ends.hpp"

namespace gantry {

Result<DeviceBuffer> bring_broadcast(Device& device, DeviceQueue& queue,
                                     const PipelineSource& source,
                                     const std::shared_ptr<FileIo>& file_io, Deadline limit) {
  constexpr Bytes kPart = Bytes{8} << 20;  // part of a source that is not in memory
  GANTRY_ASSIGN(DeviceBuffer whole, device.allocate(source.size));
  if (source.kind == PipelineSource::Kind::memory) {
    GANTRY_ASSIGN(const DeviceEvent event, queue.copy_in(whole, 0, source.bytes, source.held));
    GANTRY_TRY(event.wait(limit));
    return whole;
  }
  std::unique_ptr<FileLane> lane;
  if (source.kind == PipelineSource::Kind::file) {
    std::string how;
    GANTRY_ASSIGN(lane, open_file_lane(device, file_io, FileTransfer::Kind::read, how));
  }
  const auto fetch = [&](std::uint64_t at, ByteSpan to) -> Result<void> {
    if (source.kind != PipelineSource::Kind::reshaped) return source.read(at, to);
    source.plan->convert(to, source.bytes, at);
    return {};
  };
  auto part = std::make_shared<std::vector<std::byte>>(std::min<Bytes>(kPart, source.size));
  for (Bytes at = 0; at < source.size; at += kPart) {
    const ByteSpan bytes = ByteSpan(*part).first(std::min<Bytes>(part->size(), source.size - at));
    GANTRY_TRY(lane != nullptr ? transfer_now(*lane, read_of(source, at, bytes, part), limit)
                               : fetch(at, bytes));
    GANTRY_ASSIGN(const DeviceEvent event, queue.copy_in(whole, at, bytes, part));
    GANTRY_TRY(event.wait(limit));
  }
  return whole;
}

}  // namespace gantry
