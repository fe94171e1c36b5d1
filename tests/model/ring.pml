/* One ring between a producer and a consumer, both asleep when there is nothing to do, either dead
 * or gone at any step: src/sync/spsc/sequence_ring.hpp, doorbell.hpp, Producer::Impl::wait_until()
 * (channel/wait_for_credit.hpp), Consumer::Impl::receive(), look(), wait_any() (consumer.cpp).
 *
 * Messages are small: they lie in the record. A loan may be published without waiting for room, as
 * Producer::publish(Loan) does; that is why there are twice as many cells as credits.
 *
 * Properties. Records are taken once, in order, never torn (assertions in take()). A cell is
 * overwritten only when its record was taken (I3). `closed` is said exactly at the end, `peer_gone`
 * only after all that was published has been taken. close() returns only when all was taken.
 * Nobody sleeps for ever (invalid end states).
 */
#ifndef DEPTH
#define DEPTH 1             /* credits */
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#define LOANS DEPTH
#define CELLS (2 * DEPTH)   /* cells_for() */
#define REPORT_AFTER DEPTH  /* at most: the code's is half of it, which wakes the producer sooner */

/* A process that is killed takes no further step. Without DEATH there are fewer states, so that more
 * messages can go. */
#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte sequence[CELLS], record[CELLS];            /* RingPage::ring */
byte end;                                       /* RingPage::end [E] */
byte taken;                                     /* ConsumerPage::taken [T] */
byte producer_intent, consumer_intent;
bool producer_event, consumer_event;            /* sticky */

/* ---- what the kernel knows ---- */
bool producer_dead, consumer_dead, hung_up;

/* ---- the producer's process: under the channel's lock ---- */
bool lost;

inline must_ring(intent) {                      /* Ringer::must_ring(); its own word is private */
  atomic {
    must = intent % 2 == 1 && rang_for != intent;                /* [D4] */
    if
    :: must -> rang_for = intent
    :: else
    fi
  }
}

inline ring_consumer() {                        /* Reader::wake() */
  must_ring(consumer_intent);
  if
  :: atomic { must -> consumer_event = true }
  :: else
  fi
}

inline ring_producer() {                        /* Consumer::Impl::ring_producer() */
  must_ring(producer_intent);
  if
  :: atomic { must -> producer_event = true }
  :: else
  fi
}

/* ---- producer ---- */

/* wait_until(): `ready` is an expression over published and taken_seen. */
inline wait_until(ready) {
  do
  :: taken_seen = taken;                        /* RingWriter::refresh() [T] [D2] */
     if
     :: (ready) -> break
     :: else
     fi;
     if
     :: lost -> goto gone                       /* check_readers() */
     :: else
     fi;
#ifdef MUTANT_PRODUCER_INTENT_AFTER_LOOK
     taken_seen = taken;
     gone_seen = lost;
     producer_intent++;
#else
     producer_intent++;                         /* announce() [D1] */
     taken_seen = taken;                        /* has_news() [D2] */
     gone_seen = lost;
#endif
     if
     :: (ready) || gone_seen -> producer_intent++
     :: else ->
        (producer_event);                       /* poll() */
        producer_intent++;
        producer_event = false                  /* drain() */
     fi
  od
}

inline publish() {                              /* RingWriter::publish(), Outgoing::write() */
  atomic {
    published++;
    cell = published % CELLS;
    assert(published <= CELLS || taken >= published - CELLS)  /* I3 */
  };
#ifdef MUTANT_SEQUENCE_BEFORE_RECORD
  sequence[cell] = published;
#endif
#ifdef MUTANT_WRITER_LOOKS_FIRST
  must_ring(consumer_intent);
#endif
  record[cell] = published;
#ifndef MUTANT_SEQUENCE_BEFORE_RECORD
  sequence[cell] = published;                   /* [P] [D3] */
#endif
#ifdef MUTANT_WRITER_LOOKS_FIRST
  if
  :: atomic { must -> consumer_event = true }
  :: else
  fi
#else
  ring_consumer()
#endif
}

proctype Producer() {
  byte published, taken_seen, cell, loans = LOANS;
  byte rang_for;                                /* Ringer::last_ */
  bool gone_seen, must;
  {
    do
    :: published < MESSAGES && loans > 0 && !lost ->
       loans--;
       publish()                                /* Producer::Impl::publish(Loan) */
    :: published < MESSAGES ->                  /* send_small(): await_room(), then publish */
#ifdef MUTANT_ONE_CREDIT_TOO_MANY
       wait_until(published - taken_seen <= DEPTH);
#else
       wait_until(published - taken_seen < DEPTH);
#endif
       publish()
    :: published == MESSAGES -> break
    od;
#ifdef MUTANT_END_ONE_EARLY
    end = published;
#else
    end = published + 1;                        /* Reader::end_stream() [E] */
#endif
#ifndef MUTANT_END_WITHOUT_WAKE
    ring_consumer();
#endif
    wait_until(published == taken_seen);        /* close(): all_taken() */
    assert(taken == MESSAGES);
gone: skip
  } MORTAL(producer_dead)
}

/* The doorman sees the consumer's hang-up or its pidfd: Readership::left(), then BellTower::ring(). */
proctype Doorman() {
end_no_news:
  {
    (hung_up || consumer_dead);
    lost = true;
#ifndef MUTANT_LEFT_WITHOUT_RING
    producer_event = true
#endif
  } MORTAL(producer_dead)
}

/* ---- consumer ---- */

inline take() {                                 /* copy_small() */
#ifdef MUTANT_TAKEN_BEFORE_COPY
  taken = own + 1;
#endif
  atomic {
    assert(record[(own + 1) % CELLS] == own + 1);
    own++;
    unreported++
  };
  if
  :: unreported >= REPORT_AFTER -> report()
  :: else -> taken = own                        /* RingReader::mark() [T]; nobody is woken */
  fi
}

inline report() {                               /* report_taken() */
  atomic { unreported = 0; taken = own };       /* RingReader::report() [T] [D3] */
#ifndef MUTANT_REPORT_WITHOUT_RING
  ring_producer()
#endif
}

inline look() {                                 /* ready() [P] [D2], then at_end() [E] [D2] */
  there = sequence[(own + 1) % CELLS] == own + 1;
  if
  :: atomic { !there -> ended = end != 0 && own + 1 >= end }
  :: else -> ended = false
  fi
}

proctype Consumer() {
  byte own, unreported;
  byte rang_for;                                /* Ringer::last_ */
  bool there, ended, gone, rang, died, must;
  {
    do
    :: look();
       if
       :: there -> take()
       :: else ->
#ifndef MUTANT_SLEEPS_ON_UNREPORTED
          if                                    /* wait_any() */
          :: unreported > 0 -> report()
          :: else
          fi;
#endif
          look();                               /* look(): once more, then what ended it */
          if
          :: there
          :: !there && ended ->
             assert(own == MESSAGES);           /* `closed`; it stays joined */
             goto over
          :: !there && !ended && gone ->
             there = sequence[(own + 1) % CELLS] == own + 1;
             assert(!there);                    /* `peer_gone` */
             goto over
          :: else ->
#ifdef MUTANT_CONSUMER_INTENT_AFTER_LOOK
             look();
             consumer_intent++;
#else
             consumer_intent++;                 /* announce() [D1] */
             look();                            /* has_news() [D2] */
#endif
             if
             :: there || ended -> consumer_intent++
             :: else ->
                atomic {                        /* poll(): event, socket, pidfd */
                  (consumer_event || producer_dead);
                  rang = consumer_event;
                  died = producer_dead
                };
                consumer_intent++;
#ifdef MUTANT_GONE_BEFORE_LOOK
                if
                :: died ->
                   there = sequence[(own + 1) % CELLS] == own + 1;
                   assert(!there);
                   goto over
                :: else
                fi;
#endif
                if                              /* examine_peer() */
                :: rang -> consumer_event = false
                :: else
                fi;
                if
                :: died -> gone = true
                :: else
                fi
             fi
          fi
       fi
  #ifdef DEATH
    :: true -> break                            /* it has enough: Consumer::~Consumer() */
#endif
    od;
#ifdef DEATH
    if
    :: unreported > 0 -> report()               /* leave() */
    :: else
    fi;
    hung_up = true;
#endif
over: skip
  } MORTAL(consumer_dead)
}

/* kill -9, at any step or never */
proctype Reaper() {
#ifdef DEATH
  if
  :: producer_dead = true
  :: consumer_dead = true
  :: skip
  fi
#else
  skip
#endif
}

init {
  atomic { run Producer(); run Doorman(); run Consumer(); run Reaper() }
}
