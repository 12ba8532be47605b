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

// auditPolicy makes the API server log the metadata of each write after the response, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// write is an audit event for a write request.
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
	// Begun is the time at which the request arrived. Done is the time of the response.
	Begun metav1.MicroTime `json:"requestReceivedTimestamp"`
	Done  metav1.MicroTime `json:"stageTimestamp"`
}

// of reports whether the user sent the write.
func (w write) of(user string) bool { return w.User.Username == user }

// isLease reports whether the object of the write is a Lease. Controllers write their Lease to acquire, renew or
// release leadership.
func (w write) isLease() bool { return w.ObjectRef.Resource == "leases" }

// elects reports whether the write is part of leader election: its object is a Lease, or an event about a Lease. All
// events in leaseNamespace are about a Lease.
func (w write) elects() bool {
	return w.isLease() || w.isEvent() && w.ObjectRef.Namespace == leaseNamespace
}

// isEvent reports whether the object of the write is an event.
func (w write) isEvent() bool { return w.ObjectRef.Resource == "events" }

// createsPod reports whether the write created a pod.
func (w write) createsPod() bool {
	return w.Verb == "create" && w.ObjectRef.Resource == "pods" && w.ObjectRef.Subresource == "" &&
		w.ResponseStatus.Code < 300
}

// String describes the write in one line.
func (w write) String() string {
	o := w.ObjectRef
	return fmt.Sprintf("%s %s %s/%s %s/%s: %d", w.User.Username, w.Verb, o.Resource, o.Subresource, o.Namespace, o.Name,
		w.ResponseStatus.Code)
}

// auditLog is the path of the file to which the API server appends audit events.
type auditLog string

// since returns the writes whose requests arrived at the time begin or later. An incomplete last line of the log is
// left out, because the API server has not finished it. The sequence ends after an error.
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

// selected returns the writes since the time begin that the function wanted accepts, sorted by the time of their
// responses.
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
