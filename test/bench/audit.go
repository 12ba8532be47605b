package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditPolicy has the API server log each write once it is done, and nothing of what it says.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// write is one that was done, as the API server saw it.
type write struct {
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Begun and Done are when the request arrived and was answered.
	Begun metav1.MicroTime `json:"requestReceivedTimestamp"`
	Done  metav1.MicroTime `json:"stageTimestamp"`
}

// of says that a user did the write.
func (w write) of(user string) bool { return w.User.Username == user }

// isLease says that the write is how a leader says that it is there, or that it goes.
func (w write) isLease() bool { return w.ObjectRef.Resource == "leases" }

// elects says that the write is by the election of a leader: of its Lease, or of an event that speaks of it.
func (w write) elects() bool {
	return w.isLease() || w.isEvent() && w.ObjectRef.Namespace == leaseNamespace
}

// isEvent says that the write tells a user something.
func (w write) isEvent() bool { return w.ObjectRef.Resource == "events" }

// createsPod reports whether the write created a pod.
func (w write) createsPod() bool {
	return w.Verb == "create" && w.ObjectRef.Resource == "pods" && w.ObjectRef.Subresource == "" &&
		w.ResponseStatus.Code < 300
}

// String says who wrote what.
func (w write) String() string {
	o := w.ObjectRef
	return fmt.Sprintf("%s %s %s/%s %s/%s: %d", w.User.Username, w.Verb, o.Resource, o.Subresource, o.Namespace, o.Name,
		w.ResponseStatus.Code)
}

// auditLog is the file that the API server appends to.
type auditLog string

// since returns the writes that began at the given time or later. A line that is being written ends the sequence, and
// so does an error.
func (a auditLog) since(begin time.Time) iter.Seq2[write, error] {
	return func(yield func(write, error) bool) {
		file, err := os.Open(string(a))
		if err != nil {
			yield(write{}, err)
			return
		}
		defer file.Close()
		lines := bufio.NewReader(file)
		for {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(write{}, err)
				return
			}
			var w write
			if err := json.Unmarshal(line, &w); err != nil {
				yield(write{}, fmt.Errorf("reading %s: %w", a, err))
				return
			}
			if !w.Begun.Time.Before(begin) && !yield(w, nil) {
				return
			}
		}
	}
}

// selected returns the writes since the given time that are wanted.
func (a auditLog) selected(begin time.Time, wanted func(write) bool) ([]write, error) {
	var selected []write
	for w, err := range a.since(begin) {
		if err != nil {
			return nil, err
		}
		if wanted(w) {
			selected = append(selected, w)
		}
	}
	slices.SortStableFunc(selected, func(a, b write) int { return a.Done.Compare(b.Done.Time) })
	return selected, nil
}
