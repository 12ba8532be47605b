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
		const maxSignal = 64
		code := ptr.Deref(last.Code, 1)
		if last.Replica != "" && len(validation.IsDNS1123Subdomain(last.Replica)) > 0 || ptr.Deref(last.Rank, 0) < 0 ||
			code == 0 || code < -maxSignal || code > 255 || last.Since < 0 || last.Since > MaxAge.Milliseconds() {
			return errors.New(`the field "restarts" of the state has an invalid restart`)
		}
	}
	return nil
}

// Status returns the last restarts for the status of a job. The state must be from the given time.
func (r Restarts) Status(now time.Time) []batchv1beta1.RestartInPlace {
	var last []batchv1beta1.RestartInPlace
	for _, restart := range r.Last {
		status := batchv1beta1.RestartInPlace{
			Replica: restart.Replica, Rank: restart.Rank, ExitCode: restart.Code,
			Time: metav1.NewTime(now.Add(-milliseconds(restart.Since))).Rfc3339Copy(),
		}
		if signal := trainlog.Signal(ptr.Deref(restart.Code, 0)); signal != "" {
			status.ExitCode, status.Signal = nil, signal
		}
		last = append(last, *status.DeepCopy())
	}
	return last
}
