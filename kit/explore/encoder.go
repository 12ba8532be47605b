package explore

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/kit/model"
)

// digest identifies a state.
type digest [16]byte

// encoder computes digests. If two states have the same digest, the same events can happen in their futures. A digest
// leaves out what cannot influence the future, such as the values of UIDs and versions, and the time of day.
type encoder struct {
	// specOf returns the spec of a job.
	specOf func(framework.Job) framework.JobSpec
	// known caches the encodings of objects by pointer. This is safe because the model never changes an object in place.
	known map[client.Object][]token
	// tokens are the tokens of the current state.
	tokens  []token
	times   []int64
	faults  []int64
	names   []string
	encoded []byte
}

// token is a part of an encoding: a text, a name, or a time. A name is a UID, a version, or the time of a report. It
// only matters which names are equal, and not what they are.
type token struct {
	text, name string
	// at is a time in seconds. past is the number of seconds after which the time no longer matters.
	at, past int64
	// fault is the time of a node fault, and created is the time at which a pod was created. Only the order of these
	// times matters.
	fault, created int64
}

func (e *encoder) digest(s *state) digest {
	e.tokens = e.tokens[:0]
	live := s.live.Objects
	e.objects(live, nil)
	e.text("cached ")
	e.objects(s.Cache.Shown(), live)
	if s.old != nil {
		e.text("old ")
		e.objects(s.old, live)
	}
	e.text(s.Cache.Lost())
	e.flags(s.Cache.LosesNext(), s.Dirty, s.closed, s.unclear, s.away, s.changed.Equal(s.now), s.isAnnounced)
	e.numbers(int(s.Cache.Frozen()), s.counted, s.Stalls, s.broken, s.inPlace)
	spent := s.spent
	e.numbers(spent.failures, spent.edits, spent.crashes, spent.aways, spent.staleReads, spent.lostEvents, spent.conflicts,
		spent.lates, spent.changes, spent.ticks, spent.nodes)
	if !s.RequeueAt.IsZero() {
		e.tokens = append(e.tokens, token{at: s.RequeueAt.Unix(), past: forever})
	}
	if !s.succeededAt.IsZero() {
		e.text("succeeded ")
		e.tokens = append(e.tokens, token{at: s.succeededAt.Unix(), past: int64(believed/time.Second) + 1})
	}
	e.text("waits since ")
	if !s.waitsSince.IsZero() {
		e.tokens = append(e.tokens, token{at: s.waitsSince.Unix(), past: int64(statusInterval / time.Second)})
	}
	if !s.delayedUntil.IsZero() {
		e.tokens = append(e.tokens, token{text: "held"}, token{at: s.delayedUntil.Unix()})
	}
	e.quota(s)
	e.progress(s)
	if s.Late != nil {
		e.late(s.Late)
	}
	e.text("unseen ")
	if s.Unseen != "" {
		e.tokens = append(e.tokens, token{name: string(s.Unseen)})
	}
	if s.reconcile != nil {
		for _, a := range s.reconcile.answers {
			e.text(a.Call.Verb + a.Call.Key)
			if a.Err != nil {
				e.text(a.Err.Error())
			}
			if a.Object != nil {
				e.object(a.Object)
			}
			for _, pod := range a.Pods {
				e.object(pod)
			}
			for _, reading := range a.Readings {
				e.reading(reading)
			}
		}
		e.text(s.reconcile.next.String())
	}
	return e.sum(s.now.Unix())
}

func (e *encoder) text(text string) { e.tokens = append(e.tokens, token{text: text}) }

// numbers adds one token that contains numbers between 0 and 255.
func (e *encoder) numbers(numbers ...int) {
	text := make([]byte, len(numbers))
	for i, n := range numbers {
		text[i] = byte(n) //nolint:gosec // it is at most 255
	}
	e.text(string(text))
}

func (e *encoder) flags(flags ...bool) {
	bits := 0
	for i, flag := range flags {
		if flag {
			bits |= 1 << i
		}
	}
	e.numbers(bits)
}

func (e *encoder) objects(of, same model.Objects) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if of[key] == same[key] {
			e.text("= " + key + " ")
			continue
		}
		e.text(key)
		e.object(of[key])
	}
}

func (e *encoder) object(object client.Object) {
	encoded, ok := e.known[object]
	if !ok {
		encoded = tokens(e.encode(object))
		for i := range encoded {
			encoded[i].text = shortened(encoded[i].text)
		}
		if len(e.known) > 1<<13 {
			clear(e.known)
		}
		e.known[object] = encoded
	}
	e.tokens = append(e.tokens, encoded...)
}

// shortened returns the text if it is short, and the hash of the text otherwise. The encodings of objects are cached,
// so that a long text is rarely hashed again.
func shortened(text string) string {
	if len(text) <= sha256.Size {
		return text
	}
	hash := sha256.Sum256([]byte(text))
	return string(hash[:])
}

// sum returns the digest of the tokens. Names are numbered in the order in which they first occur. Only the order of
// the times and the intervals between neighboring times count. An interval that is longer than the constant horizon
// counts as the horizon.
func (e *encoder) sum(now int64) digest {
	e.times, e.names = append(e.times[:0], now), e.names[:0]
	for _, t := range e.tokens {
		if t.at != 0 && now-t.at < t.past {
			e.times = append(e.times, t.at)
		}
	}
	slices.Sort(e.times)
	e.times = slices.Compact(e.times)
	e.sortFaults()
	since := make([]int64, len(e.times)) // seconds since the first time
	for i := 1; i < len(e.times); i++ {
		since[i] = since[i-1] + min(e.times[i]-e.times[i-1], int64(horizon/time.Second))
	}
	zero, _ := slices.BinarySearch(e.times, now)
	e.encoded = e.encoded[:0]
	write := func(kind byte, n int64) {
		e.encoded = strconv.AppendInt(append(e.encoded, kind), n, 10)
	}
	for _, t := range e.tokens {
		switch {
		case t.name != "":
			i := slices.Index(e.names, t.name)
			if i < 0 {
				i = len(e.names)
				e.names = append(e.names, t.name)
			}
			write('#', int64(i))
		case t.fault != 0 || t.created != 0:
			write('F', e.order(t))
		case t.at == 0:
			e.encoded = append(e.encoded, t.text...)
		case now-t.at < t.past:
			i, _ := slices.BinarySearch(e.times, t.at)
			write('T', since[i]-since[zero])
		default:
			write('T', -int64(horizon))
		}
	}
	hash := sha256.Sum256(e.encoded)
	return digest(hash[:16])
}

// encode returns the parts of an object that can influence future events.
func (e *encoder) encode(object client.Object) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rv-%s %s %d %v ",
		object.GetResourceVersion(), object.GetUID(), object.GetGeneration(), object.GetFinalizers())
	if at := object.GetDeletionTimestamp(); at != nil {
		b.WriteString(at.UTC().Format(time.RFC3339))
	}
	for _, owner := range object.GetOwnerReferences() {
		fmt.Fprintf(&b, " of %s ", owner.UID)
	}
	switch object := object.(type) {
	case framework.Job:
		spec := e.specOf(object)
		spec.Roles = slices.Clone(spec.Roles)
		for i := range spec.Roles {
			spec.Roles[i].Template = nil // no edit changes the template
		}
		write(&b, spec)
		b.WriteString(shown(object.JobStatus().Progress))
		write(&b, withoutHistory(*object.JobStatus(), spec.RunPolicy))
	case *corev1.Pod:
		fmt.Fprintf(&b, "%s %s %s ",
			model.AttemptLabel(object), object.Spec.NodeName, object.Annotations[model.MembersAnnotation])
		fmt.Fprintf(&b, "by %s ", object.Labels[batchv1beta1.LabelAdmittedBy])
		fmt.Fprintf(&b, "%s %s %t ",
			object.Labels[batchv1beta1.LabelJobKind], object.Labels[batchv1beta1.LabelJobName], model.IsLate(object))
		if view.IsHeld(object) && object.DeletionGracePeriodSeconds != nil {
			fmt.Fprintf(&b, "within %d ", *object.DeletionGracePeriodSeconds)
		}
		status := object.Status.DeepCopy()
		for i := range status.ContainerStatuses {
			switch c := &status.ContainerStatuses[i].State; {
			case c.Running != nil:
				c.Running.StartedAt = metav1.Time{}
			case c.Terminated != nil && c.Terminated.ExitCode == 0 && policy.Disruption(object) == "" && !view.IsHeld(object):
				c.Terminated.FinishedAt = metav1.Time{} // the time counts only for failures, disruptions and held pods
			case c.Terminated != nil && status.ContainerStatuses[i].Name != kubelet.MainContainer(object):
				c.Terminated.FinishedAt = metav1.Time{} // only the end of the main container counts
			}
		}
		b.WriteString(lastReport(status.InitContainerStatuses))
		b.WriteString(avoidanceOf(object))
		for i := range status.Conditions {
			if c := &status.Conditions[i]; c.Type == corev1.PodScheduled {
				c.LastTransitionTime = metav1.Time{}
			}
		}
		status.InitContainerStatuses = nil // only the last report of the sidecar matters, and b already contains it
		write(&b, status)
	case *kueuev1beta2.Workload:
		fmt.Fprintf(&b, "admitted %t ", object.Status.Admission != nil)
		for _, set := range object.Spec.PodSets {
			fmt.Fprintf(&b, "%s %d ", set.Name, set.Count)
		}
		for _, c := range object.Status.Conditions {
			fmt.Fprintf(&b, "%s %s %s %s ", c.Type, c.Status, c.Reason, c.Message)
		}
	case *corev1.ResourceQuota:
		write(&b, object.Status)
	case *schedulerv1beta1.PodGroup:
		fmt.Fprintf(&b, "%d %v of generation %d ", object.Spec.MinMember, object.Spec.Roles, object.Status.ObservedGeneration)
		for _, c := range object.Status.Conditions {
			fmt.Fprintf(&b, "%s %s %s ", c.Type, c.Status, c.Reason)
		}
	}
	return b.String()
}

func write(b *strings.Builder, v any) {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err) // API types can always be encoded
	}
	b.Write(encoded)
}

// withoutHistory returns the status without the fields that are only displayed. No future event depends on them.
func withoutHistory(status batchv1beta1.JobStatus, run batchv1beta1.RunPolicy) batchv1beta1.JobStatus {
	status = *status.DeepCopy()
	if run.ActiveDeadlineSeconds == nil && status.StartTime != nil {
		status.StartTime = &metav1.Time{}
	}
	if status.RunningTime != nil {
		status.RunningTime = &metav1.Time{}
	}
	status.Progress = nil // the function shown encodes the progress
	if status.RestartsInPlace != nil {
		status.RestartsInPlace.Last = nil
	}
	for i, failure := range status.Failures {
		status.Failures[i] = batchv1beta1.ReplicaFailure{Node: faultOf(failure)}
	}
	for i := range status.AvoidedNodes {
		status.AvoidedNodes[i].Reason = ""
	}
	for i := range status.Tasks {
		status.Tasks[i].RestartCount = 0
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		fails := c.Type == batchv1beta1.ConditionReplicaFailure && c.Status == metav1.ConditionTrue
		refused := c.Type == batchv1beta1.ConditionInitialized && c.Status == metav1.ConditionFalse
		// While the job has not finished, the grace period of the peers is counted from the time of this condition.
		succeeds := c.Type == batchv1beta1.ConditionSuccessCriteriaMet && !status.Finished()
		// The deadlines for progress are counted from the time of this condition.
		runs := c.Type == batchv1beta1.ConditionRunning && c.Status == metav1.ConditionTrue &&
			(run.ProgressDeadlineSeconds != nil || run.StartupDeadlineSeconds != nil)
		if !fails && !refused && !succeeds && !runs {
			c.LastTransitionTime = metav1.Time{}
		}
		if succeeds || runs {
			c.ObservedGeneration = 0 // JSON leaves out 0, so that the encoding matches an entry of the variable matters
		}
		// The message can contain the time of day at which a replica restarts. This time gets the format of the other
		// times.
		if strings.Contains(c.Message, " UTC") {
			c.Message = timeOfDay.ReplaceAllString(c.Message, model.Birth.Format(time.DateOnly)+"T${1}Z")
		}
	}
	return status
}

var timeOfDay = regexp.MustCompile(`(\d\d:\d\d:\d\d) UTC`)

// forever is the value of past for times that always matter.
const forever = math.MaxInt64

// matters has the times that stop mattering at some point. An entry has the text before such a time, and how long the
// time still matters after it has passed. A time after any other text always matters.
var matters = []struct {
	before string
	past   time.Duration
}{
	{before: `"restartTime":"`},
	{before: `restarts at `},
	{before: `"completionTime":"`, past: completionMatters},
	{before: `"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":"`, past: peerGrace},
	{before: `"type":"Running","status":"True","lastTransitionTime":"`, past: deadlineMatters},
	{before: reportText, past: reportMatters},
	{before: `"since":"`, past: avoidNodesFor},
	{before: `"until":"`},
}

const timeLength = len("2026-03-01T12:00:00Z")

// tokens splits the encoding of an object into tokens.
func tokens(encoded string) []token {
	var found []token
	start := 0
	for i := 0; i < len(encoded); {
		rest := encoded[i:]
		var t token
		var length int
		switch {
		case rest[0] == 'u' && strings.HasPrefix(rest, "uid-"), rest[0] == 'r' && strings.HasPrefix(rest, "rv-"),
			rest[0] == 'r' && strings.HasPrefix(rest, "report-"):
			length = strings.IndexByte(rest, '-') + 1
			for length < len(rest) && '0' <= rest[length] && rest[length] <= '9' {
				length++
			}
			t.name = rest[:length]
		case rest[0] == '@' && (strings.HasPrefix(rest, faultText) || strings.HasPrefix(rest, createdText)):
			t, length = orderToken(rest)
		case rest[0] == '2' && len(rest) >= timeLength && rest[4] == '-' && rest[10] == 'T' && rest[timeLength-1] == 'Z':
			length = timeLength
			at, err := time.Parse(time.RFC3339, rest[:length])
			if err != nil {
				panic(err) // the text has the format of a time
			}
			t.at, t.past = at.Unix(), forever
			for _, m := range matters {
				if strings.HasSuffix(encoded[:i], m.before) {
					t.past = int64(m.past / time.Second)
				}
			}
		default:
			i++
			continue
		}
		found = append(found, token{text: encoded[start:i]}, t)
		i += length
		start = i
	}
	return append(found, token{text: encoded[start:]})
}
