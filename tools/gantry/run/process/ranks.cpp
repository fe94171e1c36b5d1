#include "run/process/ranks.hpp"

#include <stdlib.h>

#include "output.hpp"
#ifdef GANTRY_HAVE_PMIX
#include <dlfcn.h>
#include <fmt/format.h>
#include <pmix.h>

#include <cstring>
#endif

namespace gantry::run {
namespace {

constexpr const char* kRank = "PMIX_RANK";

}  // namespace

std::optional<unsigned> own_rank() {
  const char* const text = ::getenv(kRank);
  if (text == nullptr) return std::nullopt;
  const auto rank = cli::parse_number(text, 0, 1u << 30);
  if (!rank) return std::nullopt;
  return static_cast<unsigned>(*rank);
}

#ifndef GANTRY_HAVE_PMIX

Result<std::vector<std::string>> exchange_among_ranks(const std::string&) {
  return tl::unexpected(Error{Code::unsupported, "this gantry was built without PMIx",
                              "install libpmix-dev, configure and build again"});
}

#else

namespace {

constexpr const char* kLibrary = "libpmix.so.2";
constexpr const char* kKey = "gantry.run";

/// The functions that are called; the library stays loaded.
struct Pmix {
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Fence) fence = nullptr;
  decltype(&::PMIx_Get) get = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;

  static Result<Pmix> load();
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Pmix> Pmix::load() {
  Pmix found;
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && find(library, "PMIx_Init", found.init) &&
      find(library, "PMIx_Put", found.put) && find(library, "PMIx_Commit", found.commit) &&
      find(library, "PMIx_Fence", found.fence) && find(library, "PMIx_Get", found.get) &&
      find(library, "PMIx_Finalize", found.finalize))
    return found;
  return tl::unexpected(Error{Code::unsupported, fmt::format("{} cannot be opened", kLibrary),
                              "apt install libpmix2"});
}

Result<void> checked(const char* what, pmix_status_t status) {
  if (status == PMIX_SUCCESS) return {};
  return tl::unexpected(
      Error{Code::system, fmt::format("PMIx: {} failed with status {}", what, status), {}});
}

/// Between PMIx_Init and PMIx_Finalize: a launcher takes it amiss when a rank ends in between.
class Session {
 public:
  static Result<Session> open(const Pmix& pmix) {
    pmix_proc_t own{};
    if (auto begun = checked("PMIx_Init", pmix.init(&own, nullptr, 0)); !begun)
      return tl::unexpected(begun.error());
    return Session(pmix, own);
  }
  Session(Session&& other) noexcept
      : pmix_(std::exchange(other.pmix_, nullptr)), own_(other.own_) {}
  Session& operator=(Session&&) = delete;
  ~Session() {
    if (pmix_ != nullptr) pmix_->finalize(nullptr, 0);
  }

  /// Returns once every rank has told its own.
  Result<void> tell(std::string text) const {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = text.data();
    pmix_info_t collect{};
    std::strcpy(collect.key, PMIX_COLLECT_DATA);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    auto done = checked("PMIx_Put", pmix_->put(PMIX_GLOBAL, kKey, &value));
    if (done) done = checked("PMIx_Commit", pmix_->commit());
    return done ? checked("PMIx_Fence", pmix_->fence(nullptr, 0, &collect, 1)) : done;
  }
  Result<unsigned> size() const {
    auto value = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, PMIX_UINT32);
    if (!value) return tl::unexpected(value.error());
    return (*value)->data.uint32;
  }
  Result<std::string> told_by(unsigned rank) const {
    auto value = get(rank, kKey, PMIX_STRING);
    if (!value) return tl::unexpected(value.error());
    std::string text = (*value)->data.string;
    ::free((*value)->data.string);
    return text;
  }

 private:
  struct Free {
    void operator()(pmix_value_t* value) const { ::free(value); }
  };
  Session(const Pmix& pmix, const pmix_proc_t& own) : pmix_(&pmix), own_(own) {}

  Result<std::unique_ptr<pmix_value_t, Free>> get(pmix_rank_t rank, const char* key,
                                                  pmix_data_type_t type) const {
    pmix_proc_t of = own_;
    of.rank = rank;
    pmix_value_t* value = nullptr;
    if (auto got = checked("PMIx_Get", pmix_->get(&of, key, nullptr, 0, &value)); !got)
      return tl::unexpected(got.error());
    std::unique_ptr<pmix_value_t, Free> owned(value);
    if (value->type == type) return owned;
    return tl::unexpected(Error{Code::system, fmt::format("PMIx: {} has another type", key), {}});
  }

  const Pmix* pmix_;
  pmix_proc_t own_;
};

}  // namespace

Result<std::vector<std::string>> exchange_among_ranks(const std::string& told) {
  const Result<Pmix> pmix = Pmix::load();
  if (!pmix) return tl::unexpected(pmix.error());
  const Result<Session> session = Session::open(*pmix);
  if (!session) return tl::unexpected(session.error());
  ::unsetenv(kRank);
  if (auto done = session->tell(told); !done) return tl::unexpected(done.error());
  const Result<unsigned> size = session->size();
  if (!size) return tl::unexpected(size.error());
  std::vector<std::string> texts;
  for (unsigned rank = 0; rank < *size; ++rank) {
    Result<std::string> text = session->told_by(rank);
    if (!text) return tl::unexpected(text.error());
    texts.push_back(std::move(*text));
  }
  return texts;
}

#endif

}  // namespace gantry::run
