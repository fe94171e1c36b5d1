// Groups of ranks and their collectives: include/gantry/group.h.

#include <gantry/group.h>
#include <unistd.h>

#include <cstdlib>
#include <gantry/collectives.hpp>
#include <limits>

#include "options.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

namespace {

/// Collectives keep it, too. In a child of fork() its links are the parent's.
struct JoinedGroup {
  explicit JoinedGroup(gantry::Group made) : group(std::move(made)) {}
  gantry::Group group;
  const pid_t process = ::getpid();
};
using SharedGroup = std::shared_ptr<JoinedGroup>;

[[nodiscard]] bool is_of_parent(const SharedGroup& group) {
  return group != nullptr && group->process != ::getpid();
}

/// Leaving in a child would be leaving for the parent: its memory stays as it is.
template <class Kept>
void keep_for_parent(const SharedGroup& group, Kept& kept) {
  if (is_of_parent(group)) static_cast<void>(new Kept(std::move(kept)));
}

}  // namespace

struct gantry_group : c::Handle {
  explicit gantry_group(SharedGroup made) : group(std::move(made)) {}
  ~gantry_group() override {
    if (!is_of_parent(group)) group->group.leave();  // collectives may keep it
    keep_for_parent(group, group);
  }
  SharedGroup group;
};

struct gantry_collective : c::Handle {
  gantry_collective(SharedGroup of, gantry::Collective made)
      : group(std::move(of)), collective(std::move(made)) {
    const auto& taken = collective->choice();
    choice =
        taken.program + (taken.variant.empty() ? "" : " " + taken.variant) + ": " + taken.reason;
  }
  ~gantry_collective() override {
    const SharedGroup of = group;
    keep_for_parent(of, collective);
    keep_for_parent(of, group);
  }
  SharedGroup group;  // goes last
  std::optional<gantry::Collective> collective;
  std::string choice;
};

namespace {

Result<void> check_process(const SharedGroup& group) {
  if (!is_of_parent(group)) return {};
  return c::fail(Code::unsupported, "this group: it was joined before fork()",
                 "join one in the child");
}

Result<gantry::GroupOptions> group_options_of(const gantry_group_options* options,
                                              const gantry_runtime& runtime) {
  if (options == nullptr) {
    auto launched = gantry::GroupOptions::of_launcher();
    if (!launched && launched.error().code == Code::not_found)
      return c::fail(Code::not_found, launched.error().message,
                     "give a name, a rank and the number of ranks, or use `gantry run`");
    GANTRY_C_ASSIGN(auto made, std::move(launched));
    made.interrupt_descriptor = runtime.interrupt_descriptor;
    return made;
  }
  GANTRY_C_ASSIGN(const auto given, c::read_struct(options, "gantry_group_options"));
  gantry::GroupOptions made;
  made.rank = given.rank;
  made.ranks = given.ranks;
  if (given.name != nullptr) made.name = given.name;
  if (given.token != nullptr) made.token = given.token;
  made.directory = runtime.directory;
  if (given.stall_ns < 0)
    return c::fail(Code::invalid_argument,
                   "stall_ns is " + std::to_string(given.stall_ns) + ", which is no time");
  if (given.stall_ns > 0)
    made.stall_limit =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(given.stall_ns));
  made.interrupt_descriptor =
      c::interrupt_of(given.interrupt_descriptor, runtime.interrupt_descriptor);
  for (std::uint32_t rank = 0;
       given.addresses != nullptr && rank < std::min(given.ranks, gantry::kMostGroupRanks);
       ++rank) {
    GANTRY_C_TRY(c::check_pointer(given.addresses[rank], "an address"));
    made.addresses.emplace_back(given.addresses[rank]);
  }
  return made;
}

Result<std::chrono::milliseconds> patience_of(std::int64_t timeout_ns) {
  GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
  static_cast<void>(deadline);
  constexpr std::chrono::hours kForEver{24 * 365};
  if (timeout_ns == -1) return std::chrono::milliseconds(kForEver);
  // Without waiting: a group of one, or nobody else has to come any more.
  return std::max(std::chrono::milliseconds(1), std::chrono::ceil<std::chrono::milliseconds>(
                                                    std::chrono::nanoseconds(timeout_ns)));
}

/// In NumPy's words; DLPack has more codes than gantry.h.
std::string type_name(unsigned code, unsigned bits) {
  constexpr const char* kKinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  if (code >= std::size(kKinds))
    return "type code " + std::to_string(code) + " of " + std::to_string(bits) + " bits";
  return kKinds[code] + (code == 6 ? "" : std::to_string(bits));
}

Result<gantry::DataType> type_of(const gantry_collective_call& call) {
  using gantry::DataType;
  constexpr DataType kTypes[] = {{DataType::signed_int, 32, 1}, {DataType::signed_int, 64, 1},
                                 {DataType::floating, 16, 1},   {DataType::floating, 32, 1},
                                 {DataType::floating, 64, 1},   {DataType::bfloat, 16, 1}};
  for (const DataType& type : kTypes)
    if (static_cast<unsigned>(type.code) == call.type_code && type.bits == call.type_bits)
      return type;
  return c::fail(
      Code::invalid_argument,
      "collectives have no elements of type " + type_name(call.type_code, call.type_bits),
      "they have int32, int64, float16, float32, float64 and bfloat16");
}

Result<gantry::CollectiveCall> call_of(const gantry_collective_call& given, unsigned ranks) {
  if (given.kind > GANTRY_BROADCAST)
    return c::fail(Code::invalid_argument,
                   "no collective has the number " + std::to_string(given.kind));
  gantry::CollectiveCall call;
  call.kind = static_cast<gantry::CollectiveKind>(given.kind);
  call.root = given.root;
  GANTRY_C_ASSIGN(const auto type, type_of(given));
  call.tensor = {static_cast<std::byte*>(given.data), given.elements, type};
  if (call.kind == gantry::CollectiveKind::all_to_all)
    call.result = {static_cast<std::byte*>(given.result), given.result_elements, type};
  else if (given.result != nullptr || given.counts != nullptr)
    return c::fail(Code::invalid_argument, "result and counts are for all-to-all");
  if (given.counts != nullptr)
    call.counts.assign(given.counts, given.counts + std::size_t{ranks} * ranks);
  return call;
}

/// What is refused before the others hear of it they would wait for.
template <class T>
Result<T> or_leave(gantry::Group& group, Result<T> result) {
  if (!result && group.state()) group.leave();
  return result;
}

Result<gantry::Collective> prepare(gantry::Group& group, const gantry_collective_call* call,
                                   std::int64_t timeout_ns) {
  GANTRY_C_TRY(c::check_pointer(call, "call"));
  GANTRY_C_ASSIGN(const auto given, c::read_struct(call, "gantry_collective_call"));
  GANTRY_C_ASSIGN(const auto asked, call_of(given, group.ranks()));
  gantry::CollectiveOptions options;
  if (given.program != nullptr) options.program = given.program;
  if (given.variant != nullptr) options.variant = given.variant;
  GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
  return gantry::Collective::prepare(group, asked, options, deadline);
}

}  // namespace

gantry_code gantry_group_join(gantry_runtime* runtime, const gantry_group_options* options,
                              std::int64_t timeout_ns, gantry_group** group) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(group, "group"));
    GANTRY_C_TRY(c::check_pointer(runtime, "runtime"));
    GANTRY_C_ASSIGN(auto made, group_options_of(options, *runtime));
    GANTRY_C_ASSIGN(made.join_timeout, patience_of(timeout_ns));
    GANTRY_C_ASSIGN(gantry::Group joined,
                    gantry::Group::join(made, runtime->runtime.default_engine()));
    c::hand_out(group, std::make_shared<JoinedGroup>(std::move(joined)));
    return {};
  });
}

gantry_code gantry_group_place(gantry_group* group, std::uint32_t* rank, std::uint32_t* ranks) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(rank, "rank"));
    GANTRY_C_TRY(c::clear(ranks, "ranks"));
    GANTRY_C_TRY(c::check_pointer(group, "group"));
    GANTRY_C_TRY(check_process(group->group));
    *rank = group->group->group.rank();
    *ranks = group->group->group.ranks();
    return {};
  });
}

gantry_code gantry_collective_prepare(gantry_group* group, const gantry_collective_call* call,
                                      std::int64_t timeout_ns, gantry_collective** collective) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(collective, "collective"));
    GANTRY_C_TRY(c::check_pointer(group, "group"));
    GANTRY_C_TRY(check_process(group->group));
    gantry::Group& of = group->group->group;
    GANTRY_C_ASSIGN(auto made, or_leave(of, prepare(of, call, timeout_ns)));
    c::hand_out(collective, group->group, std::move(made));
    return {};
  });
}

gantry_code gantry_collective_run(gantry_collective* collective, std::int64_t timeout_ns) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(collective, "collective"));
    GANTRY_C_TRY(check_process(collective->group));
    GANTRY_C_ASSIGN(const auto deadline,
                    or_leave(collective->group->group, c::deadline_of(timeout_ns)));
    GANTRY_C_ASSIGN(const auto ran, collective->collective->run(deadline));
    static_cast<void>(ran);
    return {};
  });
}

const char* gantry_collective_choice(const gantry_collective* collective) {
  return collective == nullptr ? "" : collective->choice.c_str();
}
