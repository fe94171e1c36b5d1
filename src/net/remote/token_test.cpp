#include "net/remote/token.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <gantry/bridge.hpp>

#include "core/channel/test_support.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;

class TokenFile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto able = check_token(std::string(32, 't')); !able)
      GTEST_SKIP() << to_string(able.error());
  }
  void write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  void expect_refused(Code code, const std::string& why) const {
    const auto token = read_bridge_token(path_);
    ASSERT_FALSE(token) << why;
    EXPECT_EQ(token.error().code, code) << to_string(token.error());
    EXPECT_THAT(token.error().message, HasSubstr(path_));
    EXPECT_THAT(token.error().message, HasSubstr(why));
  }

  const test::ScratchDirectory scratch_;
  const std::string path_ = scratch_.path() + "/token";
};

TEST_F(TokenFile, HoldsTheTokenInItsFirstLine) {
  const std::string token = "a token of 24 characters";
  for (const char* const rest : {"", "\n", "\n\n", "\nanother line", "\r\n"}) {
    write(token + rest);
    const auto read = read_bridge_token(path_);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(*read, token);
  }
  write(token + '\n' + std::string(100'000, 'x'));
  EXPECT_EQ(read_bridge_token(path_).value(), token);
  write(token, 0400);
  EXPECT_EQ(read_bridge_token(path_).value(), token);
}

TEST_F(TokenFile, HoldsSixteenTo64Bytes) {
  for (const std::size_t size : {16u, 17u, 63u, 64u})
    for (const char* const end : {"", "\n", "\r\n"}) {
      write(std::string(size, 't') + end);
      EXPECT_EQ(read_bridge_token(path_).value().size(), size) << size;
    }
  for (const std::size_t size : {0u, 1u, 15u, 65u, 66u, 67u, 5000u})
    for (const char* const end : {"", "\n", "\nwhat follows is no part of it"}) {
      write(std::string(size, 't') + end);
      expect_refused(Code::invalid_argument, "bytes; it must have 16 to 64");
    }
  write("\xff 9\x03\x80!\n" + std::string(93, '\xee'));  // of a file without lines
  expect_refused(Code::invalid_argument, "its first line is the token, which has 6 bytes");
}

TEST_F(TokenFile, IsReadByItsOwnerAlone) {
  for (const mode_t mode : {0644u, 0640u, 0604u, 0620u, 0602u, 0601u, 0666u, 0777u}) {
    write("a token of 24 characters", mode);
    expect_refused(Code::permission_denied, "others can use it");
  }
}

TEST_F(TokenFile, IsAFile) {
  EXPECT_EQ(read_bridge_token(path_).error().code, Code::not_found);
  EXPECT_EQ(read_bridge_token("").error().code, Code::not_found);
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  expect_refused(Code::invalid_argument, "is no file");
  ASSERT_EQ(::rmdir(path_.c_str()), 0);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_refused(Code::invalid_argument, "is no file");  // and nobody writes to it: no wait
  const Fd writer(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  expect_refused(Code::invalid_argument, "is no file");
}

TEST_F(TokenFile, IsNamedByTheEnvironmentIfNoTokenIsGiven) {
  write("the token of the file, 33 letters\n");
  ASSERT_EQ(::setenv("GANTRY_TOKEN_FILE", path_.c_str(), 1), 0);
  EXPECT_EQ(token_or_file("").value(), "the token of the file, 33 letters");
  EXPECT_EQ(token_or_file("a token of 24 characters").value(), "a token of 24 characters");
  EXPECT_EQ(token_or_file("too short").error().code, Code::invalid_argument);
  for (const char* const none : {"", static_cast<const char*>(nullptr)}) {
    ASSERT_EQ(
        none == nullptr ? ::unsetenv("GANTRY_TOKEN_FILE") : ::setenv("GANTRY_TOKEN_FILE", none, 1),
        0);
    const auto token = token_or_file("");
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().code, Code::permission_denied);
    EXPECT_THAT(token.error().hint, HasSubstr("GANTRY_TOKEN_FILE"));
  }
}

// ---- proofs --------------------------------------------------------------------------------

using TokenProof = TokenFile;

TEST_F(TokenProof, DependsOnAllThatIsSaid) {
  const std::string token(16, 't');
  const Nonce one = make_nonce();
  const Nonce other = make_nonce();
  EXPECT_NE(one, other);
  const auto said = test::pattern(100, 1);
  const Proof proof = prove(token, "caller", one, other, said);
  EXPECT_TRUE(is_same_proof(proof, prove(token, "caller", one, other, said)));
  auto changed = said;
  changed.back() ^= std::byte{1};
  Nonce flipped = one;
  flipped.back() ^= std::byte{0x80};
  for (const Proof& different :
       {prove(std::string(17, 't'), "caller", one, other, said),
        prove(std::string(15, 't') + 'u', "caller", one, other, said),
        prove(token, "bridge", one, other, said), prove(token, "caller", other, one, said),
        prove(token, "caller", flipped, other, said), prove(token, "caller", one, flipped, said),
        prove(token, "caller", one, other, changed), prove(token, "caller", one, other, {}),
        prove(token, "caller", one, other, ConstByteSpan(said).first(99))}) {
    EXPECT_FALSE(is_same_proof(proof, different));
    EXPECT_NE(different, Proof{});
  }
}

TEST_F(TokenProof, IsComparedToItsLastByte) {
  const Proof proof = prove(std::string(64, 't'), "caller", {}, {}, {});
  for (std::size_t i = 0; i < proof.size(); ++i)
    for (unsigned bit = 0; bit < 8; ++bit) {
      Proof changed = proof;
      changed[i] ^= static_cast<std::byte>(1u << bit);
      EXPECT_FALSE(is_same_proof(proof, changed)) << i;
    }
  EXPECT_TRUE(is_same_proof(proof, proof));
}

}  // namespace
}  // namespace gantry
