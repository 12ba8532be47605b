package supervisor

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/progress"
)

var silent = log.New(io.Discard, "", 0)

// serveBudget starts the leader of a budget with the limit. It returns the budget of the other replicas.
func serveBudget(t *testing.T, limit int) (*leader, Budget) {
	t.Helper()
	b := Budget{Restarts: limit, ID: "uid-0", Replica: "worker-0"}
	l := newLeader(b, silent)
	listener, err := progress.Listen(t.Context(), "0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go l.serve(listener)
	b.Leader = listener.Addr().String()
	return l, b
}

// connectFollower starts a follower, and returns when the leader knows that its processes have started.
func connectFollower(l *leader, b Budget, replica string, first start) *follower {
	b.Replica = replica
	f := newFollower(b, silent)
	f.begin(first)
	go f.follow()
	waitFor(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.conn != nil
	})
	l.waitForRound(replica, first.Number)
	return f
}

// waitForRound waits until the leader knows the start of a replica.
func (l *leader) waitForRound(replica string, number int) {
	waitFor(func() bool {
		s := l.seatOf(replica)
		return s != nil && s.start == number
	})
}

// seatOf returns a copy of the seat of a replica, or nil if the replica is not there.
func (l *leader) seatOf(replica string) (found *seat) {
	l.locked(func(a *account) {
		for _, s := range a.replicas {
			if s.name == replica {
				found = new(*s)
			}
		}
	})
	return found
}

// waitFor waits until a condition is true.
func waitFor(condition func() bool) {
	for !condition() {
		time.Sleep(time.Millisecond)
	}
}

func TestReplicasAskTheLeader(t *testing.T) {
	t.Parallel()
	l, b := serveBudget(t, 1)
	l.begin(start{Number: 1, Round: "a", Size: 2})
	f := connectFollower(l, b, "worker-1", start{Number: 1, Round: "a", Size: 2})
	got := []verdict{f.fail(failure{Rank: 3, Code: 7}), l.fail(failure{Rank: 0, Code: 1})}
	f.begin(start{Number: 2, Round: "b", Size: 2})
	l.begin(start{Number: 2, Round: "b", Size: 2})
	got = append(got, f.fail(failure{Rank: 3, Code: 7}))
	counted := verdict{Restarts: true, Explanation: "restart in place 1 of 1 (maxRestarts)"}
	first := counted
	first.IsFirst = true
	want := []verdict{
		first, counted, {Explanation: "all restarts in place are used up (maxRestarts: 1)", IsFirst: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected verdicts (-want +got):\n%s", diff)
	}
}

func TestTheControllerReadsTheRestartsInPlace(t *testing.T) {
	t.Parallel()
	l, b := serveBudget(t, 3)
	l.begin(start{Number: 1, Round: "a", Size: 1})
	l.fail(failure{Rank: 3, Code: 7})
	state, err := progress.NewClient().Read(t.Context(), progress.Target{Address: b.Leader, Token: b.ID})
	if err != nil {
		t.Fatal(err)
	}
	state.Restarts.Last[0].Since = 0
	want := progress.State{Restarts: progress.Restarts{Count: 1, Last: []progress.Restart{
		{Replica: "worker-0", Rank: ptr.To[int32](3), Code: ptr.To[int32](7)},
	}}}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("unexpected state (-want +got):\n%s", diff)
	}
	_, err = progress.NewClient().Read(t.Context(), progress.Target{Address: b.Leader, Token: "uid-1"})
	if err == nil || !strings.Contains(err.Error(), "the status of the response is 401") {
		t.Errorf("with the ID of another attempt, got the error %v, want the status 401", err)
	}
}

func TestALostReplicaIsNoRestartInPlace(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*follower){
		"its connection ends": func(f *follower) {
			f.mu.Lock()
			defer f.mu.Unlock()
			_ = f.conn.Close()
		},
		"it leaves": (*follower).leave,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, b := serveBudget(t, 0)
			first := start{Number: 1, Round: "a", Size: 3}
			l.begin(first)
			lost := connectFollower(l, b, "worker-1", first)
			survivor := connectFollower(l, b, "worker-2", first)
			lose(lost)
			want := verdict{Restarts: true, Explanation: "a replica has left or was lost, so this is no restart in place"}
			if diff := cmp.Diff(want, survivor.fail(failure{Rank: 2, Code: 1})); diff != "" {
				t.Errorf("unexpected verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFailureIsTheFirstOnlyIfNoOtherReplicaCanHaveFailedEarlier(t *testing.T) {
	t.Parallel()
	const killed, raised, unknown = -9, 1, 0
	for name, tc := range map[string]struct {
		size int // of the round
		play func(*scene)
		want bool // whether the failure of the process in replica a is the first
	}{
		"no other replica has failed":       {2, func(s *scene) { s.ends("a", raised) }, true},
		"a replica has not connected":       {3, func(s *scene) { s.ends("a", raised) }, false},
		"a replica has left":                {2, func(s *scene) { s.leave("b"); s.ends("a", raised) }, false},
		"another replica has failed before": {2, func(s *scene) { s.ends("b", raised); s.ends("a", killed) }, false},
		"another replica fails soon after":  {2, func(s *scene) { s.ends("a", raised); s.ends("b", raised) }, false},
		"another replica ends, unknown how": {2, func(s *scene) { s.ends("a", raised); s.ends("b", unknown) }, false},
		"it was killed, and a peer raises":  {2, func(s *scene) { s.ends("a", killed); s.ends("b", raised) }, true},
		"two replicas were killed":          {2, func(s *scene) { s.ends("a", killed); s.ends("b", killed) }, false},
		"two of its processes fail":         {2, func(s *scene) { s.ends("a", raised); s.ends("a", raised) }, true},
		"the code is unknown":               {2, func(s *scene) { s.ends("a", unknown) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene("ab")
			s.begin("1", "ab", tc.size)
			tc.play(s)
			r := s.account.replicas["a"].round
			s.judge(r)
			if got := s.account.verdictFor("a", r).IsFirst; got != tc.want {
				t.Errorf("the failure is the first: %t, want %t", got, tc.want)
			}
		})
	}
}

// ends lets a process of a replica end with a code.
func (s *scene) ends(replica string, code int) { s.account.fail(replica, failure{Code: code}) }

func TestAReplicaThatConnectsAgainTellsWhatTheLeaderMustKnow(t *testing.T) {
	t.Parallel()
	l, b := serveBudget(t, 1)
	f := connectFollower(l, b, "worker-1", start{Number: 1, Round: "a", Size: 1})
	before := l.seatOf("worker-1").joined
	f.mu.Lock()
	_ = f.conn.Close()
	f.mu.Unlock()
	waitFor(func() bool {
		s := l.seatOf("worker-1")
		return s != nil && s.joined.After(before) && s.start == 1
	})
}

func TestAReplicaWithoutALeaderRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(Budget{ID: "uid-0", Replica: "worker-1"}, silent)
		f.begin(start{Number: 1, Round: "a", Size: 2})
		want := verdict{Restarts: true, Explanation: "the leader does not reply"}
		if diff := cmp.Diff(want, f.fail(failure{Rank: 1})); diff != "" {
			t.Errorf("unexpected verdict (-want +got):\n%s", diff)
		}
	})
}

func TestALeaderThatNoReplicaReachesCountsEachNewRound(t *testing.T) {
	t.Parallel()
	l, _ := serveBudget(t, 1)
	var got []*verdict
	for i, round := range []string{"a", "b", "c"} {
		got = append(got, l.begin(start{Number: i + 1, Round: round, Size: 2}))
	}
	want := []*verdict{nil, nil, {Explanation: "all restarts in place are used up (maxRestarts: 1)"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected verdicts (-want +got):\n%s", diff)
	}
}

func TestOnlyAReplicaWithTheKeyIsHeard(t *testing.T) {
	t.Parallel()
	l, b := serveBudget(t, 1)
	recorded := hello{Replica: "worker-1", Nonce: "n"}.sign(b.ID, challenge{Nonce: "of another time"})
	for name, line := range map[string]any{
		"no hello":             map[string]int{"start": 1},
		"no signature":         hello{Replica: "worker-1"},
		"another key":          hello{Replica: "worker-1"}.sign("uid-1", challenge{}),
		"a recorded hello":     recorded,
		"a line without end":   strings.Repeat("x", 2*maxLine),
		"a hello of no object": 7,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", b.Leader)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			reader, err := newFollower(b, silent).upgrade(conn)
			if err != nil {
				t.Fatal(err)
			}
			lines := newScanner(reader)
			if err := receive(lines, &challenge{}); err != nil {
				t.Fatal(err)
			}
			if err := send(conn, line); err != nil {
				t.Fatal(err)
			}
			if lines.Scan() {
				t.Errorf("got the reply %q, want none", lines.Text())
			}
			if l.seatOf("worker-1") != nil {
				t.Error("the replica is in the account")
			}
		})
	}
}

func TestAReplicaHearsOnlyALeaderWithTheKey(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		reader := bufio.NewReader(conn)
		_, _ = http.ReadRequest(reader)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: budget\r\n\r\n")
		_ = send(conn, challenge{Nonce: "n"})
		_, _ = reader.ReadString('\n')
		_ = send(conn, welcome{Signature: "none"})
	}()
	f := newFollower(Budget{ID: "uid-0", Leader: listener.Addr().String()}, silent)
	if wasConnected, err := f.connect(); wasConnected || err == nil {
		t.Errorf("got a connection: %t, and the error %v", wasConnected, err)
	}
}

func TestTheLeaderKnowsTheStepsOfRank0(t *testing.T) {
	state := progress.State{}
	server := newReceiver(t, func() progress.State { return state })
	for name, tc := range map[string]struct {
		url   string
		first bool
		state progress.State
		want  *int64
	}{
		"a step":                   {server, true, progress.State{Reports: 1, Step: ptr.To[int64](7)}, ptr.To[int64](7)},
		"reports without steps":    {server, true, progress.State{Reports: 1, Percent: ptr.To[int32](3)}, nil},
		"no report":                {server, true, progress.State{}, ptr.To[int64](-1)},
		"rank 0 is elsewhere":      {server, false, progress.State{}, nil},
		"a pod without a receiver": {"", true, progress.State{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(progress.EnvURL, tc.url)
			state = tc.state
			l := newLeader(Budget{ID: "uid-0"}, silent)
			l.begin(start{Number: 1, Round: "a", Size: 1, hasFirst: tc.first})
			if diff := cmp.Diff(tc.want, l.steps()); diff != "" {
				t.Errorf("unexpected step (-want +got):\n%s", diff)
			}
		})
	}
}

// newReceiver starts a receiver of progress, sets the token of this process, and returns the URL.
func newReceiver(t *testing.T, state func() progress.State) string {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(progress.EnvToken, token)
	listener, err := listen.TCP(context.Background(), "127.0.0.1:0", 8)
	if err != nil {
		t.Fatal(err)
	}
	server := listen.NewServer(progress.Handler("the-token", state))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}
