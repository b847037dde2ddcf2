#include "comm/node/box_exchange.h"

#include <algorithm>

#include "comm/box_bytes.h"
#include "comm/pieces.h"
#include "core/error.h"

namespace tessera::comm {

// The staging memory has the lengths of the streams to each member, then a slot for each.
void exchange_boxes(NodeGroup& group, const std::vector<int>& peers, const void* in,
                    const std::vector<BoxTransfer>& sends, void* out, const std::vector<BoxTransfer>& receives,
                    DType dtype) {
  constexpr std::int64_t kLength = sizeof(std::int64_t);
  const int size = group.size();
  const int own = group.index();
  const auto head = (size * kLength + 63) / 64 * 64;
  const auto width = (group.part_bytes() - head) / size / 64 * 64;
  TESSERA_CHECK(width > 0, "{} bytes of staging for {} ranks", group.part_bytes(), size);
  const auto slot = [&](int from, int to) { return group.staging(from) + head + to * width; };
  const auto stream = [&](const std::vector<BoxTransfer>& transfers, int member) {
    return BoxBytes(transfers, peers[static_cast<std::size_t>(member)], size_of(dtype));
  };

  std::int64_t longest = 0;
  for (int member = 0; member < size; ++member) {
    const auto length = stream(sends, member).length();
    copy_bytes(group.staging(own) + member * kLength, &length, kLength);
    longest = std::max(longest, length);
  }
  const Post post{signature(Kind::kBoxExchange, dtype, Reduce::kSum, 0), static_cast<std::uint64_t>(longest)};
  for (std::int64_t at = 0, end = 1; at < end; at += width) {
    for (int member = 0; member < size; ++member) {
      const auto sent = stream(sends, member);
      sent.pack(in, at, std::min(sent.length(), at + width), slot(own, member));
    }
    group.round(Kind::kBoxExchange, post);
    for (int k = 0; k < size; ++k) {
      const int member = (own + k) % size;
      const auto received = stream(receives, member);
      std::int64_t length = 0;
      copy_bytes(&length, group.staging(member) + own * kLength, kLength);
      TESSERA_CHECK(length == received.length(), "box exchange: member {} sends {} bytes, {} are expected", member,
                    length, received.length());
      received.unpack(out, at, std::min(length, at + width), slot(member, own));
      end = std::max(end, static_cast<std::int64_t>(group.post(member).detail));
    }
    group.round(Kind::kBoxExchange, post);
  }
}

}  // namespace tessera::comm
