// Processes that work with images and are killed at it, at a random moment, at a step of the
// channel's protocol or at a system call: whoever is left has every byte, under a file's name is
// the old content or the new one, and nothing stays behind. README.md
//   usage: image_kills [--kills N] [--seed N] [--only RUN]
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>

#include "fault/image_roles.hpp"
#include "fault/image_traces.hpp"

namespace gantry::fault {
namespace {

namespace fs = std::filesystem;
using test::Content;

struct Settings {
  unsigned kills = 60;
  unsigned seed = 1;
  std::optional<unsigned> only{};
};

constexpr unsigned kMeasured = 3;            // undisturbed runs, of each role
constexpr Bytes kMostLost = Bytes{1} << 29;  // of the machine's shared memory; others use it, too

class Campaign {
 public:
  explicit Campaign(const Settings& settings) : settings_(settings) {
    for (const char* name : {"files", "given", "gantry"}) fs::create_directory(folder_.file(name));
    fs::permissions(gantry_, fs::perms::owner_all);
    for (unsigned i = 0; i < 6; ++i) contents_.push_back(content_of(i));
    for (unsigned i = 0; i < contents_.size(); ++i) check(pack(contents_[i], image_of(i), i));
    for (unsigned i = 0; i < 3; ++i) heaps_.push_back({i + 1, 60 + 500 * i});
    for (unsigned i = 0; i < heaps_.size(); ++i)
      Child("save", [&](const Talk&) { return save(heaps_[i], heap_of(i), i); }).finish();
  }

  void run() {
    const Bytes shared = shared_memory();
    const std::size_t descriptors = entries("/proc/self/fd"), objects = named_objects();
    measure();
    for (; kills() < settings_.kills; ++run_) {
      if (settings_.only) run_ = *settings_.only;
      ::alarm(300);
      random_.seed(settings_.seed * 1'000'003ull + run_);
      (this->*kRuns[random_() % kRuns.size()])();
      if (entries("/proc/self/fd") != descriptors) throw Broken("a descriptor stays open");
      if (::waitpid(-1, nullptr, WNOHANG) >= 0) throw Broken("a process stays");
      if (settings_.only) break;
    }
    if (named_objects() > objects) throw Broken("an object stays in /dev/shm");
    if (shared_memory() > shared + kMostLost) throw Broken("shared memory is not given back");
    report(shared);
  }
  [[nodiscard]] unsigned run_number() const noexcept { return run_; }

 private:
  // ---- moments -------------------------------------------------------------------------------

  /// What an undisturbed run takes.
  struct Usual {
    std::vector<Micros> times;
    std::uint64_t steps = 0;
    void note(const Child& child) {
      times.push_back(child.age());
      steps = std::max(steps, child.steps());
    }
    [[nodiscard]] Micros time() const {
      auto sorted = times;
      std::ranges::sort(sorted);
      return sorted[sorted.size() / 2];
    }
  };

  void measure() {
    for (unsigned i = 0; i < kMeasured; ++i) {
      for (const auto& [role, work] : file_roles(i)) {
        Child child(role, work);
        child.finish();
        usual_[role].note(child);
      }
      Child keeper = start_keeper(i, {});
      Child reader = start_reader(i, {});
      reader.await_told();
      usual_["keep"].times.push_back(keeper.age());
      reader.go();
      reader.finish();
      usual_["attach"].note(reader);
      keeper.go();
      keeper.finish();
      usual_["keep"].steps = std::max(usual_["keep"].steps, keeper.steps());
    }
    fs::remove(file_);
  }
  std::vector<std::pair<std::string, Child::Work>> file_roles(unsigned i) {
    return {{"pack", [=, this](const Talk&) { return pack(contents_[i], file_, i); }},
            {"load", [=, this](const Talk&) { return load(contents_[i], image_of(i), i); }},
            {"save", [=, this](const Talk&) { return save(heaps_[i], file_, i); }},
            {"restore", [=, this](const Talk&) { return restore(heaps_[i], heap_of(i), i); }}};
  }

  /// One in three by the victim's own hand.
  Strike at_a_step(const std::string& role) {
    Strike strike;
    if (random_() % 3 == 0) strike.step = 1 + random_() % (usual_[role].steps + 1);
    return strike;
  }
  Strike at_a_call(std::span<const int> calls) {
    Strike strike;
    if (random_() % 3 == 0) strike.call = calls[random_() % calls.size()];
    return strike;
  }
  /// At a random moment of what such a run takes, or a little later.
  void end(Child& child, const std::string& role, const Strike& strike) {
    const Micros longest = usual_[role].time() * 11 / 10 + Micros(100);
    const bool is_armed = strike.step != 0 || strike.call;
    const Micros moment(is_armed ? longest.count() * 2 : random_() % longest.count());
    const bool is_over = child.ends_within(moment);
    const Micros age = child.age();
    if (child.kill())
      ++killed_[role + (is_armed && is_over ? " by its own hand" : "")];
    else
      usual_[role].times.push_back(age);
  }

  // ---- files ---------------------------------------------------------------------------------

  static constexpr std::array<int, 8> kWriting{SYS_openat, SYS_pwrite64, SYS_ftruncate, SYS_fsync,
                                               SYS_linkat, SYS_rename,   SYS_fchmod,    SYS_close};
  static constexpr std::array<int, 8> kReading{SYS_openat, SYS_pread64, SYS_munmap, SYS_futex,
                                               SYS_close,  SYS_clone3,  SYS_ioctl,  SYS_mmap};

  void run_pack() {
    const auto old = somewhere();
    const Content& next = contents_[random_() % contents_.size()];
    const Content& rivals = contents_[random_() % contents_.size()];
    const auto seed = static_cast<unsigned>(random_());
    const Strike strike = at_a_call(kWriting);
    std::vector<const Content*> wholes{&next};
    Child victim("pack", [&](const Talk&) { return pack(next, file_, seed); }, strike);
    if (random_() % 4 == 0) {
      Child rival("a rival's pack", [&](const Talk&) { return pack(rivals, file_, seed + 1); });
      end(victim, "pack", strike);
      rival.finish();
      wholes.push_back(&rivals);
    } else {
      end(victim, "pack", strike);
      if (old) wholes.push_back(&contents_[*old]);
      if (!old && !fs::exists(file_)) wholes.clear();
    }
    std::string trouble;
    for (const Content* const one : wholes) {
      trouble = differs(*one, file_);
      if (trouble.empty()) break;
    }
    check(trouble);
    expect_files(1);
    in_file_ = random_() % contents_.size();
    check(pack(contents_[*in_file_], file_, seed + 2));
    check(differs(contents_[*in_file_], file_));
    expect_files(0);
  }
  /// What is under the name now; perhaps nothing.
  std::optional<std::size_t> somewhere() {
    if (random_() % 3 == 0) in_file_.reset();
    if (!in_file_) fs::remove(file_);
    return in_file_;
  }
  /// The file alone, if it is there, and so many of a packer that was killed.
  void expect_files(std::size_t most_partial) {
    std::size_t partial = 0;
    for (const auto& one : fs::directory_iterator(folder_.file("files"))) {
      if (one.path() == file_) continue;
      if (one.path().string().find(".partial-") == std::string::npos || ++partial > most_partial)
        throw Broken("a file stays: " + one.path().string());
    }
    left_ += partial;
  }

  void run_save() {
    const Heap& old = heaps_[random_() % heaps_.size()];
    const Heap& next = heaps_[random_() % heaps_.size()];
    const bool replaces = random_() % 2 == 0;
    const auto seed = static_cast<unsigned>(random_());
    in_file_.reset();
    fs::remove(file_);
    if (replaces) fs::copy_file(heap_of(&old - heaps_.data()), file_);
    const Strike strike = at_a_call(kWriting);
    Child victim("save", [&](const Talk&) { return save(next, file_, seed); }, strike);
    end(victim, "save", strike);
    if (!fs::exists(file_) && replaces) throw Broken("the old snapshot is gone");
    expect_files(1);
    Child("whoever reads and saves again", [&](const Talk&) {
      std::string trouble = fs::exists(file_) ? differs(next, file_) : "";
      if (!trouble.empty() && replaces) trouble = differs(old, file_);
      if (trouble.empty()) trouble = save(next, file_, seed + 1);
      return trouble.empty() ? differs(next, file_) : trouble;
    }).finish();
    expect_files(0);
  }

  void run_load() {
    const std::size_t i = random_() % contents_.size();
    strike_reader("load", image_of(i),
                  [&](unsigned seed) { return load(contents_[i], image_of(i), seed); });
  }
  void run_restore() {
    const std::size_t i = random_() % heaps_.size();
    strike_reader("restore", heap_of(i),
                  [&](unsigned seed) { return restore(heaps_[i], heap_of(i), seed); });
  }
  void strike_reader(const std::string& role, const std::string& path,
                     const std::function<std::string(unsigned)>& read) {
    const auto seed = static_cast<unsigned>(random_());
    struct stat before{}, after{};
    ::stat(path.c_str(), &before);
    const Strike strike = at_a_call(kReading);
    Child victim(role, [&](const Talk&) { return read(seed); }, strike);
    end(victim, role, strike);
    Child(role + ", the next", [&](const Talk&) { return read(seed + 1); }).finish();
    ::stat(path.c_str(), &after);
    if (!is_same_file(before, after)) throw Broken(path + ": it is another");
    if (entries(folder_.file("given")) != contents_.size() + heaps_.size())
      throw Broken("a file stays beside what is read");
  }

  // ---- kept images ---------------------------------------------------------------------------

  Child start_keeper(std::size_t i, const Strike& strike) {
    const auto seed = static_cast<unsigned>(random_());
    return {"keep", [=, this](const Talk& talk) { return keep(image_of(i), gantry_, seed, talk); },
            strike};
  }
  Child start_reader(std::size_t i, const Strike& strike) {
    return {"attach", [=, this](const Talk& talk) { return attach(contents_[i], gantry_, talk); },
            strike};
  }
  void expect_served(std::size_t i) {
    Child reader = start_reader(i, {});
    reader.await_told();
    reader.go();
    reader.finish();
  }
  /// The last keeper ends as it should: nothing of any of them is there.
  void end_keeping(Child keeper) {
    keeper.go();
    keeper.finish();
    for (const auto& one : fs::directory_iterator(gantry_))
      throw Broken("a file stays: " + one.path().string());
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);)
      if (line.find(gantry_) != std::string::npos) throw Broken("a socket stays: " + line);
  }

  void run_keep() {
    const std::size_t i = random_() % contents_.size();
    std::vector<Child> readers;
    const auto join = [&] {
      for (unsigned n = 1 + random_() % 2; n > 0; --n) readers.push_back(start_reader(i, {}));
    };
    if (random_() % 2 == 0) join();
    const Strike strike = at_a_step("keep");
    Child victim = start_keeper(i, strike);
    join();
    end(victim, "keep", strike);
    Child second = start_keeper(i, {});
    for (Child& one : readers) one.await_told();
    if (random_() % 2 == 0) expect_served(i);
    if (second.kill()) ++killed_["keep"];
    for (Child& one : readers) one.go();  // to compare again: nobody keeps it now
    for (Child& one : readers) one.finish();
    Child last = start_keeper(i, {});
    expect_served(i);
    end_keeping(std::move(last));
  }

  void run_attach() {
    const std::size_t i = random_() % contents_.size();
    Child keeper = start_keeper(i, {});
    expect_served(i);
    const std::size_t before = settled_descriptors(keeper, 0);
    for (unsigned n = 0; n < 4; ++n) {
      const Strike strike = at_a_step("attach");
      Child victim = start_reader(i, strike);
      if (random_() % 2 == 0) victim.go();
      end(victim, "attach", strike);
    }
    settled_descriptors(keeper, before);
    expect_served(i);
    end_keeping(std::move(keeper));
  }
  /// How many the keeper has when they no longer change, or are `wanted`.
  std::size_t settled_descriptors(const Child& keeper, std::size_t wanted) {
    const std::string folder = fmt::format("/proc/{}/fd", keeper.pid());
    std::size_t now = entries(folder);
    for (unsigned i = 0; i < 2000; ++i) {
      const std::size_t last = now;
      if (keeper.ends_within(Micros(15'000))) throw Broken("keep: it ended");
      now = entries(folder);
      if (wanted == 0 ? now == last : now <= wanted) return now;
    }
    throw Broken(fmt::format("keep: {} descriptors are open, {} before", now, wanted));
  }

  // ---- what came of it -----------------------------------------------------------------------

  static void check(const std::string& trouble) {
    if (!trouble.empty()) throw Broken(trouble);
  }
  [[nodiscard]] unsigned kills() const {
    unsigned all = 0;
    for (const auto& [role, count] : killed_) all += count;
    return all;
  }
  void report(Bytes shared) const {
    fmt::print(
        "{} kills in {} runs of seed {}; {} left NAME.partial-PID for the next packer; "
        "shared memory {} MiB before, {} after\n",
        kills(), run_, settings_.seed, left_, shared >> 20, shared_memory() >> 20);
    for (const auto& [role, count] : killed_) fmt::print("  {} {}\n", count, role);
    for (const auto& [role, usual] : usual_)
      fmt::print("  {} takes {} us undisturbed, {} steps\n", role, usual.time().count(),
                 usual.steps);
  }
  [[nodiscard]] std::string image_of(std::size_t i) const {
    return folder_.file(fmt::format("given/{}.gimg", i));
  }
  [[nodiscard]] std::string heap_of(std::size_t i) const {
    return folder_.file(fmt::format("given/heap-{}.gimg", i));
  }

  using Run = void (Campaign::*)();
  static constexpr std::array<Run, 14> kRuns{
      &Campaign::run_pack,   &Campaign::run_pack,   &Campaign::run_pack, &Campaign::run_save,
      &Campaign::run_save,   &Campaign::run_load,   &Campaign::run_load, &Campaign::run_load,
      &Campaign::run_keep,   &Campaign::run_keep,   &Campaign::run_keep, &Campaign::run_restore,
      &Campaign::run_attach, &Campaign::run_restore};

  const Settings settings_;
  const test::Folder folder_;
  const std::string file_ = folder_.file("files/a.gimg");
  const std::string gantry_ = folder_.file("gantry");
  std::vector<Content> contents_;
  std::vector<Heap> heaps_;
  std::map<std::string, Usual> usual_;
  std::map<std::string, unsigned> killed_;
  std::mt19937_64 random_;
  std::optional<std::size_t> in_file_;  // which content the file has
  std::size_t left_ = 0;
  unsigned run_ = 0;
};

int run_with(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view word = argv[i];
    const auto number = static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10));
    if (word == "--kills")
      settings.kills = number;
    else if (word == "--seed")
      settings.seed = number;
    else if (word == "--only")
      settings.only = number;
    else
      return 2;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGALRM, [](int) {
    constexpr std::string_view text = "image_kills: hang: while it looked at what was left\n";
    static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
    ::_exit(1);
  });
  ::signal(SIGPIPE, SIG_IGN);
  Campaign campaign(settings);
  try {
    campaign.run();
  } catch (const std::exception& what) {
    fmt::print(stderr, "image_kills: run {} of seed {}: {}\n", campaign.run_number(), settings.seed,
               what.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace gantry::fault

int main(int argc, char** argv) {
  return argc % 2 == 0 ? 2 : gantry::fault::run_with(argc, argv);
}
