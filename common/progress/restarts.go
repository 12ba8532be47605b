package progress

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/trainlog"
)

// MaxRestarts is the maximum number of restarts in place in a State.
const MaxRestarts = 1_000_000

// Restarts are the restarts in place that the pod of a leader has counted. The zero value means none.
type Restarts struct {
	// Count is the number of restarts, at most MaxRestarts. It never decreases.
	Count int32 `json:"count"`
	// Last are the last batchv1beta1.KeptRestartsInPlace restarts, or all if there are fewer, newest first.
	Last []Restart `json:"last,omitempty"`
}

// Restart is one restart in place.
type Restart struct {
	// Replica is the name of the replica whose process failed first. Empty means unknown.
	Replica string `json:"replica,omitempty"`
	// Rank is the rank of that process. Nil means unknown.
	Rank *int32 `json:"rank,omitempty"`
	// Code is the exit code of that process, at most 255, or the negative number of the signal that ended it. It is not
	// 0. Nil means unknown.
	Code *int32 `json:"code,omitempty"`
	// Since is the time since the restart, in milliseconds, at most MaxAge.
	Since int64 `json:"sinceMilliseconds"`
}

// At returns the restart with the time since it happened.
func (r Restart) At(at, now time.Time) Restart {
	r.Since = age(now, at).Milliseconds()
	return r
}

// validate returns an error if a limit is exceeded.
func (r Restarts) validate() error {
	if r.Count < 0 || r.Count > MaxRestarts || len(r.Last) != int(min(r.Count, batchv1beta1.KeptRestartsInPlace)) {
		return fmt.Errorf("the field \"restarts\" of the state must have a count from 0 to %d and the last %d restarts",
			MaxRestarts, batchv1beta1.KeptRestartsInPlace)
	}
	for _, last := range r.Last {
		if !last.isValid() {
			return errors.New(`the field "restarts" of the state has an invalid restart`)
		}
	}
	return nil
}

// isValid reports whether the fields have the values that their comments describe.
func (r Restart) isValid() bool {
	const maxSignal = 64
	code := ptr.Deref(r.Code, 1)
	return (r.Replica == "" || len(validation.IsDNS1123Subdomain(r.Replica)) == 0) && ptr.Deref(r.Rank, 0) >= 0 &&
		code != 0 && code >= -maxSignal && code <= 255 && r.Since >= 0 && r.Since <= MaxAge.Milliseconds()
}

// Status returns the last restarts for the status of a job. The state must be from the given time.
func (r Restarts) Status(now time.Time) []batchv1beta1.RestartInPlace {
	var last []batchv1beta1.RestartInPlace
	for _, restart := range r.Last {
		last = append(last, restart.status(now))
	}
	return last
}

func (r Restart) status(now time.Time) batchv1beta1.RestartInPlace {
	status := batchv1beta1.RestartInPlace{
		Replica: r.Replica, Rank: r.Rank, ExitCode: r.Code,
		Time: metav1.NewTime(now.Add(-milliseconds(r.Since))).Rfc3339Copy(),
	}
	if signal := trainlog.Signal(ptr.Deref(r.Code, 0)); signal != "" {
		status.ExitCode, status.Signal = nil, signal
	}
	return *status.DeepCopy()
}

// String describes how the process that failed first ended, for example "rank 3 on bert-worker-1 was terminated by
// SIGKILL".
func (r Restart) String() string { return r.status(time.Time{}).String() }
