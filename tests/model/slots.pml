/* Slots, releases, reader bits, and consumers that come, leave and die at any step:
 * src/core/channel/fan_out/consumer_set.cpp, publisher.cpp, slot_table.cpp, consumer_state.hpp, sync/spsc/release_board.hpp,
 * SendOperation (mode whole), Producer::Impl::wait_until(), ConsumerListener::leave(),
 * ReceiveQueue::take_next(), ReceivedPayloads::give_back(), Consumer::Impl::leave().
 *
 * CONSUMERS may be there at a time, JOINERS come one after the other as places become free;
 * all but the last may die or leave at any time. Every
 * message needs a slot. Cells of the rings are not used twice and consumers do not miss their
 * wake-ups: those are ring.pml's. The producer's sleep is the real one. Whatever only the producer's
 * process sees under the channel's lock goes in one step; each word of another process is a step.
 *
 * Properties. Nobody's memory is written while he may read it, unless he is dead (I3): write(), and
 * what consumers read is of their message. A message is handed to one user among a consumer and its
 * successors, in order (deliver()). At the end every slot is free but for those of the backlog, and
 * every block of memory has been given back (Acceptor's last step). Nobody sleeps for ever.
 */
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef JOINERS
#define JOINERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#define BLOCKS (SLOTS + JOINERS)    /* one that left may keep one */
#define SENDER 128                  /* kSenderBit */
#define BACKLOG 64                  /* kBacklogBit */
#define BIT(c) (1 << (c))
#define NONE 255

#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory, by consumer ---- */
byte sequence[JOINERS];                     /* of the newest record in its ring [P] */
byte ring[JOINERS * MESSAGES];              /* message numbers; the record's slot is slot_of */
bool end[JOINERS];                          /* [E] */
byte taken[JOINERS];                        /* [T] */
byte released[JOINERS * SLOTS];             /* [R] */
bool producer_sleeps;                       /* the intent is odd */
bool producer_event;
bool rang[JOINERS];                         /* its WakeFilter::last_ is this sleep's number */
byte content[BLOCKS];                       /* payload: the message it is of */

/* ---- what the kernel knows ---- */
bool asks[JOINERS], admitted[JOINERS], hung_up[JOINERS], dead[JOINERS];

/* ---- the producer's process; under `locked` ---- */
bool locked;
byte members;                               /* readers_, as bits */
byte seen_taken[JOINERS];                   /* RingWriter::taken_ */
byte holds[JOINERS];                        /* ConsumerState::holds_, slots as bits */
byte needed[SLOTS], number_of[SLOTS], block_of_slot[SLOTS];   /* Slot::readers, number, block */
byte slot_of[MESSAGES + 1], block_of[MESSAGES + 1];           /* what the records say */
byte kept;                                  /* backlog_, messages as bits */
byte users[BLOCKS];                         /* handles of a block */
byte departed[JOINERS];                     /* Departed::memory: slots as bits ... */
byte departed_block[JOINERS * SLOTS], departed_number[JOINERS * SLOTS];
bool lost, ended, finished;
byte joined;                                /* consumers that have come */
byte count;                                 /* of members */

/* ---- what the properties speak of ---- */
byte reads[JOINERS];                        /* the block that is in its user's hands, or NONE */
byte got[JOINERS];                          /* messages as bits */
byte kept_from[MESSAGES + 1];               /* 1 + the consumer that had not taken it */
byte all_over;                              /* consumers that do nothing more */

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

inline drop_block(b) {
  users[b] = users[b] - 1
}

/* SlotTable::remove() */
inline remove(s, bits) {
  if
  :: needed[s] != 0 ->
     needed[s] = needed[s] & (255 - (bits));
     if
     :: needed[s] == 0 -> drop_block(block_of_slot[s])
     :: else
     fi
  :: else
  fi
}

/* ConsumerSet::reclaim() of one slot: has_released() [R] [D2], then the bit. */
inline reclaim(c, s) {
  atomic {
    if
#ifdef MUTANT_ANY_RELEASE_COUNTS
    :: (holds[c] & BIT(s)) && released[(c) * SLOTS + s] != 0 ->
#else
    :: (holds[c] & BIT(s)) && released[(c) * SLOTS + s] == number_of[s] ->
#endif
       holds[c] = holds[c] & (255 - BIT(s));
       remove(s, BIT(c))
    :: else
    fi
  }
}

/* forget_departed(): by its pidfd or its releases. */
inline forget_departed(c, s) {
  atomic {
    if
    :: (departed[c] & BIT(s)) &&
       (dead[c] || released[(c) * SLOTS + s] == departed_number[(c) * SLOTS + s]) ->
       departed[c] = departed[c] & (255 - BIT(s));
       drop_block(departed_block[(c) * SLOTS + s])
    :: else
    fi
  }
}

/* ConsumerSet::refresh(): of each member what it took, then slot by slot what it released. */
inline refresh() {
  i = 0;
  do
  :: atomic { i < JOINERS && (members & BIT(i)) -> seen_taken[i] = taken[i] };   /* [T] [D2] */
     j = 0;
     do
     :: atomic { j < SLOTS -> reclaim(i, j); j++ }
     :: atomic { j == SLOTS -> i++; break }
     od
  :: atomic { i < JOINERS && !(members & BIT(i)) ->
       j = 0;
       do
       :: j < SLOTS -> forget_departed(i, j); j++
       :: else -> break
       od;
       i++ }
  :: atomic { i == JOINERS -> i = 0; j = 0; break }
  od
}

inline free_slot() {                        /* may_send(), take_slot(): the lowest one */
  slot = 0;
  do
  :: slot < SLOTS && needed[slot] != 0 -> slot++
  :: else -> break
  od
}

inline all_taken() {
  ready = kept == 0;
  slot = 0;
  do
  :: slot < JOINERS ->
     ready = ready && (!(members & BIT(slot)) || seen_taken[slot] == sequence[slot]);
     slot++
  :: else -> break
  od;
  slot = 0
}

#define ROOM 0
#define TAKEN 1
#define CONSUMER 2

inline decide(what) {
  atomic {
    if
    :: what == ROOM -> free_slot(); ready = slot < SLOTS
    :: what == TAKEN -> all_taken()
    :: what == CONSUMER -> ready = count > 0
    fi
  }
}

/* Each sleep has a number of its own: nobody has rung for it yet. wait_flag.pml has the numbers. */
inline announce() {
  atomic {
    producer_sleeps = true;
    i = 0;
    do
    :: i < JOINERS -> rang[i] = false; i++
    :: else -> break
    od;
    i = 0
  }
}

/* wait_until(): with the lock held before and after. */
inline wait_until(what) {
  do
  :: refresh();
     atomic {
       decide(what);
       if
       :: ready || (lost && what != CONSUMER) -> break
       :: else -> unlock()
       fi
     };
     announce();                            /* [D1] */
     lock();
     refresh();                             /* has_news() [D2] */
     atomic {
       decide(what);
       ready = ready || (lost && what != CONSUMER);
       unlock()
     };
     if
     :: ready -> producer_sleeps = false     /* withdraw() */
     :: else ->
        (producer_event);                   /* poll() */
        producer_sleeps = false;
        producer_event = false              /* drain() */
     fi;
     lock()
  od
}

inline take_memory() {                      /* Pool::allocate(): a block of no handle */
  atomic {
    block = 0;
    do
    :: block < BLOCKS && users[block] != 0 -> block++
    :: else -> break
    od;
    assert(block < BLOCKS);
    users[block] = 1;
    block_of_slot[slot] = block
  }
}

inline write() {
  atomic {
    i = 0;
    do
    :: i < JOINERS -> assert(dead[i] || reads[i] != block); i++
    :: else -> break
    od;
    i = 0;
    content[block] = number
  }
}

/* ConsumerState::publish(), hold(): one step, as the sequence alone is shared [P] [D3]. */
inline give(c, n) {
  ring[(c) * MESSAGES + sequence[c]] = n;
  needed[slot_of[n]] = needed[slot_of[n]] | BIT(c);
  holds[c] = holds[c] | BIT(slot_of[n]);
  sequence[c] = sequence[c] + 1
}

/* Publisher::publish(). Each ring is a step: its consumer may take it before the next has it. */
inline publish() {
  atomic { number_of[slot] = number; slot_of[number] = slot; block_of[number] = block; i = 0 };
  do
  :: atomic { i < JOINERS -> 
       if
       :: members & BIT(i) -> give(i, number)
       :: else
       fi;
       i++ }
  :: atomic { i == JOINERS -> i = 0; break }
  od;
  atomic {
    if
    :: count == 0 ->
       kept = kept | BIT(number);
       needed[slot] = needed[slot] | BACKLOG
    :: else
    fi;
    unlock()
  }
}

proctype Sender() {
  byte number = 1, slot, block, i, j;
  bool ready;
  do
  :: number <= MESSAGES ->
     lock();
     wait_until(ROOM);                      /* await_slot() */
     if
     :: lost ->                             /* send() says peer_gone: when is there another? */
        wait_until(CONSUMER);               /* wait_for_consumer() */
        unlock()
     :: else ->
        atomic {
          needed[slot] = SENDER;            /* take_slot() */
          unlock();
          take_memory()
        };
#ifdef MUTANT_PUBLISHED_BEFORE_COPIED
        lock();
        publish();
        write();
#else
        write();                            /* copy_then_publish() */
        lock();
        publish();
#endif
        atomic {
          !locked;
          remove(slot, SENDER);             /* finish() */
          number++
        }
     fi
  :: else -> break
  od;
  lock();
  atomic {
    ended = true;                           /* close(): end_stream() */
    i = 0;
    do
    :: i < JOINERS ->
       end[i] = end[i] || (members & BIT(i));
       i++
    :: else -> break
    od;
    i = 0
  };
  wait_until(TAKEN);
  unlock();
  finished = true
}

/* ---- the acceptor ---- */

/* ConsumerSet::admit(): what is kept, then the end. The consumer looks when it is told that it is in. */
inline admit(c) {
  i = 1;
  do
  :: i <= MESSAGES && !(kept & BIT(i)) -> i++
  :: i <= MESSAGES && (kept & BIT(i)) ->
       give(c, i);
       kept = kept & (255 - BIT(i));
#ifndef MUTANT_BACKLOG_KEEPS_BIT
       remove(slot_of[i], BACKLOG);
#endif
       i++
  :: i > MESSAGES -> i = 0; break
  od;
  end[c] = ended;
  members = members | BIT(c);
  count++;
  lost = false;
  admitted[c] = true;
  joined++
}

/* ConsumerSet::left(). In one step: of what it reads only the release of the one message that is still
 * in hand can change. */
inline left(c, died) {
#ifdef MUTANT_CREDIT_COUNTED_TWICE
  stale = holds[c];
#endif
  members = members & (255 - BIT(c));
  count--;
  i = 0;
#ifndef MUTANT_KEPT_WITHOUT_LOOK
  seen_taken[c] = taken[c];                 /* refresh() [T] */
#endif
  do
  :: i < SLOTS -> reclaim(c, i); i++
  :: else -> break
  od;
  i = seen_taken[c];
  do                                      /* for_each_unread() */
  :: i < sequence[c] ->
     number = ring[(c) * MESSAGES + i];
     if
     :: count == 0 ->                     /* keep_for_successor() */
        kept = kept | BIT(number);
        kept_from[number] = 1 + c;
#ifndef MUTANT_BACKLOG_WITHOUT_BIT
        needed[slot_of[number]] = needed[slot_of[number]] | BACKLOG
#endif
     :: else
     fi;
     holds[c] = holds[c] & (255 - BIT(slot_of[number]));
     remove(slot_of[number], BIT(c));
     i++
  :: else -> break
  od;
  lost = lost || count == 0;
  i = 0;
#ifdef MUTANT_CREDIT_COUNTED_TWICE
  do
  :: i < SLOTS ->
     if
     :: (stale & BIT(i)) && needed[i] == 0 -> drop_block(block_of_slot[i])
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0;
#endif
  do
  :: i < SLOTS && !(holds[c] & BIT(i)) -> i++
  :: i < SLOTS && (holds[c] & BIT(i)) ->
#ifndef MUTANT_DEPARTED_TAKEN_FOR_DEAD
     if
     :: !(died) ->                        /* depart() */
        departed[c] = departed[c] | BIT(i);
        departed_block[(c) * SLOTS + i] = block_of_slot[i];
        departed_number[(c) * SLOTS + i] = number_of[i];
        users[block_of_slot[i]] = users[block_of_slot[i]] + 1
     :: else
     fi;
#endif
#ifdef MUTANT_DEATH_FREES_FOR_ALL
     remove(i, 255);
#else
     remove(i, BIT(c));
#endif
     i++
  :: else -> break
  od;
  holds[c] = 0;
  i = 0;
  number = 0
}

/* watch_consumers(): its hang-up is seen a moment before its death, or together with it. */
inline ring_left() {
#ifdef MUTANT_LEFT_WITHOUT_RING
  skip
#else
  producer_event = true                     /* consumer_left() */
#endif
}

proctype Acceptor() {
  byte i, j, number;
#ifdef MUTANT_CREDIT_COUNTED_TWICE
  byte stale;
#endif
  do
  :: atomic { joined < JOINERS && count < CONSUMERS && asks[joined] && !locked ->
       admit(joined) };
#ifndef MUTANT_ADMITTED_WITHOUT_RING
     producer_event = true                  /* Producer::Impl::admit() */
#endif
  :: atomic { (members & 1) && dead[0] && !locked -> left(0, true) };
     ring_left()
  :: atomic { (members & 1) && (hung_up[0] || dead[0]) && !locked -> left(0, false) };
     ring_left()
#if JOINERS > 1
  :: atomic { (members & 2) && dead[1] && !locked -> left(1, true) };
     ring_left()
  :: atomic { (members & 2) && (hung_up[1] || dead[1]) && !locked -> left(1, false) };
     ring_left()
#endif
#if JOINERS > 2
  :: atomic { (members & 4) && dead[2] && !locked -> left(2, true) };
     ring_left()
  :: atomic { (members & 4) && (hung_up[2] || dead[2]) && !locked -> left(2, false) };
     ring_left()
#endif
  :: atomic { finished && members == 0 && joined == JOINERS && all_over == JOINERS -> break }
  od;
  lock();
  refresh();
  atomic {
    i = 0;
    do
    :: i < SLOTS -> assert((needed[i] & (255 - BACKLOG)) == 0); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < BLOCKS -> number = number + users[i]; i++
    :: else -> break
    od;
    i = 1;
    do
    :: i <= MESSAGES ->
       if
       :: kept & BIT(i) -> assert(content[block_of[i]] == i); number--
       :: else
       fi;
       i++
    :: else -> break
    od;
    assert(number == 0)
  }
}

/* ---- a consumer ---- */

inline ring_producer() {
  atomic {
    must = producer_sleeps && !rang[me];    /* [D4] */
    rang[me] = rang[me] || must
  };
  if
  :: atomic { must -> producer_event = true }
  :: else
  fi
}

inline deliver() {
  atomic {
    assert(number > newest);
    newest = number;
    assert(kept_from[number] != 1 + me);
    assert(kept_from[number] == 0 || !(got[kept_from[number] - 1] & BIT(number)));
    got[me] = got[me] | BIT(number);
    reads[me] = block_of[number]
  }
}

inline use() {
  assert(content[block_of[number]] == number)
}

inline give_back() {
#ifdef MUTANT_RELEASED_BEFORE_READ
  released[me * SLOTS + slot_of[number]] = number;
  use();
  reads[me] = NONE;
#else
  use();
  reads[me] = NONE;
  released[me * SLOTS + slot_of[number]] = number;   /* ReleaseBoard::release() [R] [D3] */
#endif
#ifndef MUTANT_RELEASE_WITHOUT_RING
  ring_producer()
#endif
}

proctype Consumer(byte me) {
  byte own, number, newest;
  bool must, leaving;
  asks[me] = true;
  (admitted[me]);
  {
    do
    :: atomic { sequence[me] > own -> number = ring[me * MESSAGES + own]; own++ };   /* [P] */
#ifdef MUTANT_TAKEN_AFTER_HANDING_OUT
       deliver();
       taken[me] = own;
#else
       taken[me] = own;                     /* report_taken() [T] [D3] */
       deliver();
#endif
       ring_producer();
       use();
       if
       :: skip
#ifdef LEAVES
       :: me < JOINERS - 1 ->
          hung_up[me] = true;               /* leave(), the message still in hand */
          leaving = true
#endif
       fi;
       give_back();
       if
       :: leaving -> break
       :: else
       fi
    :: atomic { end[me] && sequence[me] == own -> break }            /* `closed` */
#ifdef LEAVES
    :: me < JOINERS - 1 -> break
#endif
    od;
    hung_up[me] = true
  } MORTAL(dead[me]);
  all_over++
}

proctype Reaper() {
#ifdef DEATH
  byte c;
  do
  :: c < JOINERS - 1 ->
     if
     :: dead[c] = true
     :: skip
     fi;
     c++
  :: else -> break
  od
#else
  skip
#endif
}

init {
  atomic {
    byte c;
    do
    :: c < JOINERS -> reads[c] = NONE; run Consumer(c); c++
    :: else -> break
    od;
    run Sender();
    run Acceptor();
    run Reaper()
  }
}
