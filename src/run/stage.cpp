#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/moved_from.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "core/channel/wire/draft_checks.hpp"
#include "run/stage_link.hpp"

namespace gantry {
namespace {

constexpr int kFirstFreeNumber = 3;  // 0 to 2 are the standard streams

std::string list_ends(std::span<const StageEndpoint> ends, bool output) {
  std::string names;
  for (const auto& end : ends)
    if (end.output == output) names += (names.empty() ? "'" : ", '") + end.channel + "'";
  return names.empty() ? "none" : names;
}

Result<StageEndpoint> find_end(std::string_view name, bool output) {
  GANTRY_ASSIGN(const auto ends, own_stage_endpoints());
  const auto found = std::ranges::find_if(
      ends, [&](const StageEndpoint& end) { return end.channel == name && end.output == output; });
  if (found != ends.end()) return *found;
  const std::string_view direction = output ? "output" : "input";
  const bool is_other_way = std::ranges::count(ends, name, &StageEndpoint::channel) != 0;
  if (std::getenv(kStageEndpointsVariable) == nullptr)
    return fail(
        Code::not_found,
        fmt::format("stage {} '{}': this program was not started by `gantry run`", direction, name),
        "name it as a stage in a pipeline file and start that");
  return fail(Code::not_found,
              fmt::format("stage {} '{}': {}", direction, name,
                          is_other_way ? "this stage has it the other way round"
                                       : "not in the pipeline file"),
              fmt::format("this stage's {}s: {}", direction, list_ends(ends, output)));
}

tl::unexpected<Error> no_conversion(std::string_view what) {
  return fail(Code::unsupported,
              fmt::format("{}: only channels convert what they carry (`as`)", what),
              "use gantry run --transport gantry, or convert before sending");
}

}  // namespace

Result<StageInput> stage_input(std::string_view name, const StageOptions& options) {
  GANTRY_ASSIGN(const StageEndpoint end, find_end(name, false));
  StreamMarks marks(end);
  const auto open = end.transport == Transport::gantry ? open_gantry_input : open_pipe_input;
  GANTRY_ASSIGN(auto impl, open(end, options));
  impl->marks = std::move(marks);
  return StageInput(std::move(impl));
}

Result<StageOutput> stage_output(std::string_view name, const StageOptions& options) {
  GANTRY_ASSIGN(const StageEndpoint end, find_end(name, true));
  const bool converts = end.transport == Transport::gantry;
  StreamMarks marks(end);
  if (!end.as.empty() && !converts)
    return no_conversion(
        fmt::format("stage output '{}' over {}", end.channel, to_string(end.transport)));
  GANTRY_ASSIGN(auto impl, (converts ? open_gantry_output : open_pipe_output)(end, options));
  impl->marks = std::move(marks);
  impl->converts = converts;
  return StageOutput(std::move(impl));
}

std::string quoted(const StageEndpoint& end) {
  return fmt::format("channel '{}'", end.channel);
}

Result<Pool> StageOutput::Impl::pool() const {
  return fail(Code::unsupported, "pool: this stage's output has no pool of one channel",
              "write into a loan, or let send() copy");
}

// ---- the public handles --------------------------------------------------------------------

namespace {

// Before its peers can see that it hangs up, so that theirs come later.
template <class Impl>
void give_up(const std::unique_ptr<Impl>& impl) noexcept {
  if (impl) impl->marks.left();
}

// What a channel refuses is refused over every transport.
Result<void> check_payload(ConstByteSpan payload) {
  if (payload.data() != nullptr || payload.empty()) return {};
  return prefixed(at_nullptr(payload), "send");
}

Result<void> check_draft(const Draft& draft) {
  GANTRY_TRY(check_segments(draft.parts().size()));
  for (const Draft::Part& part : draft.parts()) {
    GANTRY_TRY(check_payload(part.copied));
    if (!part.moved) continue;
    if (!part.block)
      return fail(Code::invalid_argument, "send: a part of the draft is an empty block");
    GANTRY_TRY(check_block_size(part));
  }
  return {};
}

Result<void> check_as(const StageOutput::Impl& output, const SendOptions& options,
                      std::span<const Draft::Part> parts = {}) {
  const bool is_asked = options.as != nullptr ||
                        std::ranges::any_of(parts, [](const auto& part) { return !!part.as; });
  if (is_asked && !output.converts) return no_conversion("send");
  return {};
}

template <class T>
Result<T> marked(StageOutput::Impl& output, Result<T> result) {
  if (!result && result.error().code == Code::peer_gone) output.marks.broken();
  return result;
}

}  // namespace

StageInput::StageInput(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
StageInput::StageInput(StageInput&&) noexcept = default;
StageInput& StageInput::operator=(StageInput&& other) noexcept {
  give_up(impl_);
  impl_ = std::move(other.impl_);
  return *this;
}
StageInput::~StageInput() {
  give_up(impl_);
}

Result<Message> StageInput::receive(Deadline deadline) {
  if (!impl_) return moved_from("StageInput");
  auto message = impl_->receive(deadline);
  if (!message && message.error().code == Code::closed) impl_->marks.ended();
  if (!message && message.error().code == Code::peer_gone) impl_->marks.broken();
  return message;
}

StageOutput::StageOutput(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
StageOutput::StageOutput(StageOutput&&) noexcept = default;
StageOutput& StageOutput::operator=(StageOutput&& other) noexcept {
  give_up(impl_);
  impl_ = std::move(other.impl_);
  return *this;
}
StageOutput::~StageOutput() {
  give_up(impl_);
}

Result<Loan> StageOutput::loan(Bytes size, Deadline deadline) {
  if (!impl_) return moved_from("StageOutput");
  return marked(*impl_, impl_->loan(size, deadline));
}
Result<void> StageOutput::publish(Loan&& loan, const SendOptions& options) {
  if (!impl_) return moved_from("StageOutput");
  GANTRY_TRY(check_mode(options.mode));
  GANTRY_TRY(check_as(*impl_, options));
  return marked(*impl_, impl_->publish(std::move(loan), options));
}
Result<void> StageOutput::send(ConstByteSpan payload, const SendOptions& options) {
  if (!impl_) return moved_from("StageOutput");
  GANTRY_TRY(check_mode(options.mode));
  GANTRY_TRY(check_as(*impl_, options));
  GANTRY_TRY(check_payload(payload));
  return marked(*impl_, impl_->send(payload, options));
}
Result<void> StageOutput::send(Draft draft, const SendOptions& options) {
  if (!impl_) return moved_from("StageOutput");
  GANTRY_TRY(check_mode(options.mode));
  GANTRY_TRY(check_as(*impl_, options, draft.parts()));
  GANTRY_TRY(check_draft(draft));
  return marked(*impl_, impl_->send(std::move(draft), options));
}
Result<Pool> StageOutput::pool() const {
  if (!impl_) return moved_from("StageOutput");
  return impl_->pool();
}
Result<void> StageOutput::close(Deadline deadline) {
  if (!impl_) return moved_from("StageOutput");
  auto closed = marked(*impl_, impl_->close(deadline));
  // One that was not waited for to the end has ended all the same.
  if (closed || closed.error().code == Code::timed_out) impl_->marks.ended();
  return closed;
}

// The end itself takes the launcher's descriptor, so this maps the page once more.
StreamMarks::StreamMarks(const StageEndpoint& end) {
  for (const auto& link : end.links) {
    const int copy = ::fcntl(link.metrics_descriptor, F_DUPFD_CLOEXEC, kFirstFreeNumber);
    if (copy < 0) continue;
    if (auto page = Metrics::adopt(copy, true)) pages_.push_back(std::move(*page));
  }
}

void StreamMarks::ended() noexcept {
  for (const Metrics& page : pages_) page.meter()->ended();
}

void StreamMarks::left() noexcept {
  if (!fork_guard_.is_this()) return;
  for (const Metrics& page : pages_) page.meter()->left();
}

void StreamMarks::broken() noexcept {
  for (const Metrics& page : pages_) page.meter()->broken();
}

namespace {

// /dev/null holds the place of a descriptor that was taken.
bool is_place_holder(int descriptor) {
  struct stat facts{};
  return ::fstat(descriptor, &facts) == 0 && S_ISCHR(facts.st_mode) &&
         facts.st_rdev == makedev(1, 3);
}

}  // namespace

Result<Fd> take_inherited(int number, std::string_view what) {
  if (is_place_holder(number))
    return fail(Code::already_exists, fmt::format("{}: this process has opened it before", what),
                "open each end of a stage once");
  Fd taken(::fcntl(number, F_DUPFD_CLOEXEC, kFirstFreeNumber));
  if (!taken)
    return fail(Code::not_found,
                fmt::format("{}: descriptor {} is not open in this process", what, number),
                "a program between this one and `gantry run` closed it");
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null || ::dup3(null.get(), number, O_CLOEXEC) < 0) return fail_errno(what);
  return taken;
}

}  // namespace gantry
