package supervisor

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"tensorstack.dev/jobs/common/signed"
)

// A budget decides whether torchrun can start the processes of a replica again. The leader has the account, and the
// other replicas ask it over TCP.
type budget interface {
	// begin records that processes of the replica have started. It returns a verdict if the supervisor must end torchrun,
	// and otherwise nil.
	begin(start) *verdict
	// fail returns the verdict on the first failure in the round that began last. It takes at most a few seconds.
	fail(failure) verdict
	// leave records that the replica is about to end.
	leave()
}

// start is the start of the processes of a replica.
type start struct {
	// Number is the number of the start in the replica, from 1.
	Number int `json:"number"`
	// Round is the ID of the round, which is the same in all replicas.
	Round string `json:"round"`
	// Size is the number of replicas in the round.
	Size int `json:"size"`

	hasFirst bool // whether the process of rank 0 is known to run in the replica
}

// The leader's supervisor is an HTTP server, because the controller reads the restarts in place from it as it reads the
// progress of a training. See progress.Handler. A replica upgrades its connection to a protocol of its own, with one
// JSON object in each line. First, the leader sends a challenge. The replica answers with a hello, and the leader with
// a welcome. From then on, the replica sends messages, and the leader sends a reply for each failure. An empty message
// shows that the replica is still there.
type (
	challenge struct {
		Nonce string `json:"nonce"`
	}
	hello struct {
		Replica   string `json:"replica"`
		Nonce     string `json:"nonce"`
		Signature string `json:"signature"`
	}
	welcome struct {
		Signature string `json:"signature"`
	}
	message struct {
		Start   *start   `json:"start,omitempty"`
		Failure *failure `json:"failure,omitempty"`
		Leaves  bool     `json:"leaves,omitempty"`
	}
	reply struct {
		verdict

		// Start is the number of the start whose failure was judged.
		Start int `json:"start"`
	}
)

const (
	// budgetPath is the path of the URL at which a replica upgrades its connection to the protocol budgetProtocol.
	budgetPath     = "/budget"
	budgetProtocol = "budget"
	// maxLine is the maximum size of a line of the protocol, in bytes.
	maxLine = 2 << 10
	// handshakeTimeout is how long a connection can take until the replica is known.
	handshakeTimeout = 5 * time.Second
	// aliveInterval is the interval between two messages of a replica. A replica is lost after lostTimeout without one.
	// This is less than the 15 s after which torchrun drops a replica from a rendezvous.
	aliveInterval = 3 * time.Second
	lostTimeout   = 10 * time.Second
	// settleTime is the time between the first failure in a round and the verdict. If the processes fail because the pod
	// of a replica has ended, its connection is closed before the end of this time.
	settleTime = 250 * time.Millisecond
	// askTimeout is how long a replica waits for a verdict. Without a leader, there is nothing to wait for: its loss
	// restarts all replicas.
	askTimeout = 5 * time.Second
	// retryInterval is the time between two attempts to connect to the leader.
	retryInterval = time.Second
)

func (h hello) text(c challenge) string {
	return fmt.Sprintf("hello %q %q %q", c.Nonce, h.Replica, h.Nonce)
}

// sign returns the hello with its signature.
func (h hello) sign(key string, c challenge) hello {
	h.Signature = signed.Text(key, h.text(c))
	return h
}

func (h hello) isSigned(key string, c challenge) bool { return signed.Is(h.Signature, key, h.text(c)) }

// welcomeText is the text that the leader signs.
func (h hello) welcomeText() string { return fmt.Sprintf("welcome %q", h.Nonce) }

// send writes one line.
func send(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// newScanner returns a scanner of lines that are not too long.
func newScanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	return s
}

// receive reads one line.
func receive(s *bufio.Scanner, v any) error {
	if !s.Scan() {
		return cmp.Or(s.Err(), io.EOF)
	}
	return json.Unmarshal(s.Bytes(), v)
}
