// Package report holds what controllers tell their users: events, refusals, and messages that fit where they are
// written. Everything here is pure, so that package plan can use it.
package report

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	// MaxNote is the longest message that an event takes, in bytes.
	MaxNote = 1024
	// MaxMessage is the longest message that a controller writes into a condition, in bytes: twice what the kubelet
	// keeps of what a container leaves. The API server takes 32768, but every cache of the object keeps it too.
	MaxMessage = 8192
)

// Truncated cuts a message to at most the given number of bytes. It never splits a character.
func Truncated(message string, most int) string {
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most-3], "") + "..."
}

// Event is something that happened to an object. Its users read it as a Kubernetes event, administrators as a line of
// the log.
type Event struct {
	// Type, Reason and Action are those of the Kubernetes event. The reason is also the message of the log line.
	Type, Reason, Action string
	// Message is only for users, who may read the object. It may quote the output of a program, or what the API server
	// says about a template. Either may hold a secret, so the message is never logged.
	Message string
	// Facts are the keys and values of the log line.
	Facts []any
}

// RefusedError is the error of an object that the controller cannot have until somebody changes something: the API
// server rejects it, its name is taken, its CRD is missing, it cannot be read, or its template is faulty.
type RefusedError struct {
	// Reason for the condition of the owner, such as NameConflict or CreateFailed.
	Reason string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// NameConflict returns the error of an owner that needs an object whose name is taken. The owner is named as its users
// know it, such as "the job". The object that exists may belong to another one, which the message then names: whoever
// deletes it hurts that one.
func NameConflict(owner, object string, existing metav1.Object) *RefusedError {
	err := fmt.Errorf("%[1]s needs %[2]s, but one exists that is not %[1]s's: delete it or rename %[1]s", owner, object)
	if other := metav1.GetControllerOfNoCopy(existing); other != nil {
		err = fmt.Errorf("%[1]s needs %[2]s, but one exists that belongs to %[3]s %[4]s (UID %[5]s): "+
			"rename %[1]s, or delete that %[3]s", owner, object,
			Truncated(other.Kind, maxName), Truncated(other.Name, maxName), Truncated(string(other.UID), maxName))
	}
	return &RefusedError{Reason: batchv1beta1.ReasonNameConflict, Err: err}
}

// maxName is the longest name that Kubernetes gives to an object. The API server does not limit those of owners.
const maxName = 253
