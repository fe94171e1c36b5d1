// Programs from files: one is added without building anything.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <gantry/collectives.hpp>

namespace gantry {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// A folder for programs, removed in the end.
class CollectiveFiles : public testing::Test {
 public:
  CollectiveFiles() {
    folder_ = (fs::temp_directory_path() / "gantry-collectives-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  ~CollectiveFiles() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string folder_;
};

constexpr const char* kMine = R"(gantry-collective 1
name to-the-left
about Every rank gives its x to the one on its left, in y.
tensor x 1, size
tensor y 1, size
for r in 0:ranks
  let left = (r - 1) % ranks
  given x@r = X[r]
  wanted y@left = X[r]
  if r != left
    put x@r to y@left
  else
    copy x@r to y@left
  end
end
)";

TEST_F(CollectiveFiles, AreLoadedExpandedAndChecked) {
  const auto mine = load_collective(write("mine.gcoll", kMine));
  ASSERT_TRUE(mine) << to_string(mine.error());
  EXPECT_EQ(mine->name(), "to-the-left");
  for (const unsigned ranks : {1u, 2u, 5u}) {
    const auto plan = expand(*mine, {.ranks = ranks, .size = 3});
    ASSERT_TRUE(plan) << to_string(plan.error());
    EXPECT_EQ(plan->steps.size(), ranks);
    EXPECT_TRUE(check_plan(*plan));
  }
}

TEST_F(CollectiveFiles, AreListedWithThoseOfTheLibrary) {
  write("mine.gcoll", kMine);
  write("else.txt", "no program");
  const auto own = list_collectives();
  const auto all = list_collectives(folder_);
  ASSERT_TRUE(own && all) << (all ? "" : to_string(all.error()));
  EXPECT_EQ(all->size(), own->size() + 1);
  EXPECT_TRUE(std::ranges::is_sorted(*own, {}, &CollectiveProgram::name));
  EXPECT_TRUE(std::ranges::is_sorted(*all, {}, &CollectiveProgram::name));
  EXPECT_EQ(all->back().name(), "to-the-left");
  for (const CollectiveProgram& program : *own) {
    EXPECT_FALSE(program.about().empty()) << program.name();
    EXPECT_EQ(load_collective(program.name()).value().about(), program.about());
  }
}

TEST_F(CollectiveFiles, AreRefusedByName) {
  EXPECT_THAT(to_string(load_collective("all-gather").error()),
              HasSubstr("there is no collective 'all-gather'; all-gather-at-once, "));
  EXPECT_EQ(load_collective(folder_ + "/none.gcoll").error().code, Code::not_found);
  EXPECT_EQ(list_collectives(folder_ + "/none").error().code, Code::not_found);
  EXPECT_THAT(
      load_collective(write("bad.gcoll", "gantry-collective 1\nnonsense\n")).error().message,
      HasSubstr("/bad.gcoll: line 2: unknown statement 'nonsense'"));
  EXPECT_THAT(list_collectives(folder_).error().message, HasSubstr("/bad.gcoll: line 2: "));
  fs::remove(folder_ + "/bad.gcoll");
  EXPECT_EQ(load_collective(write("large.gcoll", std::string(300'000, '\n'))).error().code,
            Code::too_large);
  fs::remove(folder_ + "/large.gcoll");
  EXPECT_THAT(load_collective(folder_ + "/").error().message, HasSubstr("it is no file"));
  const std::string pipe = folder_ + "/pipe.gcoll";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(load_collective(pipe).error().message, HasSubstr("it is no file"))
      << "nobody writes to it: it must not be waited for";
  fs::remove(pipe);
  write("a.gcoll", kMine);
  write("b.gcoll", kMine);
  EXPECT_THAT(list_collectives(folder_).error().message,
              HasSubstr("/b.gcoll: there is a collective to-the-left already"));
}

}  // namespace
}  // namespace gantry
