// Package report contains the events and errors that controllers report to users, and limits the length of messages.
// All functions are pure, so that package plan can use them.
package report

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	// MaxNote is the maximum length of the message of an event, in bytes.
	MaxNote = 1024
	// MaxMessage is the maximum length of a message that a controller writes into a condition, in bytes. It is twice the
	// length that the kubelet allows for a termination message. The API server accepts 32768 bytes, but every cache of the
	// object keeps the message in memory.
	MaxMessage = 8192
)

// Truncated returns a message of at most the given number of bytes. If it cuts the message, the result ends with
// three dots. It never splits a character. The number must be at least 3.
func Truncated(message string, most int) string {
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most-3], "") + "..."
}

// Count returns a number of things, such as "1 file" or "2 files".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Event is something that happened to an object. Users see it as a Kubernetes event, administrators as a log line.
type Event struct {
	// Type, Reason and Action are those of the Kubernetes event. The reason is also the message of the log line.
	Type, Reason, Action string
	// Message is only for users who can read the object. It can quote the output of a program, or an error of the API
	// server about a template. Both can contain a secret, so the message is never logged.
	Message string
	// Facts are the keys and values of the log line.
	Facts []any
}

// RefusedError is the error of an object that the controller cannot create, change or read until somebody fixes the
// cause. For example, the API server rejects the object, its name is taken, its CRD is not installed, or its template
// is invalid.
type RefusedError struct {
	// Reason is the reason that a condition of the owner gets, such as NameConflict or CreateFailed.
	Reason string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// NameConflict returns the error of an owner that needs an object whose name is taken. The argument owner is the name
// of the owner in the message, for example "the job". If the existing object has a controller, the message names the
// controller, so that users do not delete an object that is in use.
func NameConflict(owner, object string, existing metav1.Object) *RefusedError {
	err := fmt.Errorf("%[1]s needs %[2]s, but one exists that is not %[1]s's: delete it or rename %[1]s", owner, object)
	if other := metav1.GetControllerOfNoCopy(existing); other != nil {
		err = fmt.Errorf("%[1]s needs %[2]s, but one exists that belongs to %[3]s %[4]s (UID %[5]s): "+
			"rename %[1]s, or delete that %[3]s", owner, object,
			Truncated(other.Kind, maxName), Truncated(other.Name, maxName), Truncated(string(other.UID), maxName))
	}
	return &RefusedError{Reason: batchv1beta1.ReasonNameConflict, Err: err}
}

// maxName is the maximum length of the name of a Kubernetes object. NameConflict enforces this limit, because the API
// server does not limit the names in owner references.
const maxName = 253
