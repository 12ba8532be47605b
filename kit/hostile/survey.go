package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/kit/model"
)

// Survey asks a real API server, by dry run, about the jobs of the manifests and about what distortion makes of them.
type Survey[J framework.Job] struct {
	Controller manager.Controller[J]
	CRD        *CRD
	Manifests  []map[string]any
	// Server is the API server, which has the CRD.
	Server client.Client
	// Namespace of the jobs.
	Namespace string
	// Jobs is how many to ask about. Seed is what they are drawn from.
	Jobs int
	Seed uint64
}

// Answers count what the API server said.
type Answers struct {
	// Admitted and Refused are jobs. Untried are those among the admitted whose replicas are too many to make.
	Admitted, Refused, Untried atomic.Int64
	// Pods were taken. BadTemplates are pods that were not, and would not be without a job either.
	Pods, BadTemplates atomic.Int64
}

// String says it in a sentence.
func (a *Answers) String() string {
	return fmt.Sprintf(
		"jobs: %d admitted (of which %d are too large to try), %d refused; pods: %d taken, %d refused like their bare template",
		a.Admitted.Load(),
		a.Untried.Load(),
		a.Refused.Load(),
		a.Pods.Load(),
		a.BadTemplates.Load(),
	)
}

// Ask checks that the API server refuses a job only with a message that names the field, that the CRD here admits the
// same jobs, with the same defaults, and that the pods that the controller makes of them are valid: what it adds never
// makes a good template bad. Their TensorBoards are always valid.
func (s *Survey[J]) Ask(t *testing.T) *Answers {
	t.Helper()
	answers := &Answers{}
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range numbers {
				object, document := s.job(i)
				if err := s.ask(t.Context(), object, answers); err != nil {
					t.Errorf("job %d of seed %d: %v\n%.4000s", i, s.Seed, err, document)
				}
			}
		})
	}
	for i := 0; i < s.Jobs && !t.Failed(); i++ {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	if tried := answers.Admitted.Load() - answers.Untried.Load(); tried < int64(s.Jobs)/10 ||
		answers.Pods.Load() < tried/2 {
		t.Errorf("too little could be tried: %s", answers)
	}
	return answers
}

// job returns the job of a number, also as a document. The first ones are those of the manifests.
func (s *Survey[J]) job(i int) (object map[string]any, document []byte) {
	object = kruntime.DeepCopyJSON(s.Manifests[i%len(s.Manifests)])
	inNamespace(object, s.Namespace)
	if i >= len(s.Manifests) {
		//nolint:gosec // jobs must be repeatable, and an index is not negative
		random := rand.New(rand.NewPCG(s.Seed, uint64(i)))
		s.CRD.Distort(random, object, 1+random.IntN(4))
	}
	document, err := json.Marshal(object)
	if err != nil {
		panic(err) // manifests and distortion are JSON
	}
	sent := map[string]any{} // what the API server gets: 1.0 is 1 by then
	if err := decode(document, &sent); err != nil {
		panic(err)
	}
	return sent, document
}

func (s *Survey[J]) ask(ctx context.Context, object map[string]any, answers *Answers) error {
	answer := &unstructured.Unstructured{Object: kruntime.DeepCopyJSON(object)}
	refused := s.Server.Create(ctx, answer, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if err := goodRefusal(refused); err != nil {
		return err
	}
	here := s.CRD.Admit(ctx, object)
	if (refused == nil) != (here == nil) {
		return fmt.Errorf("the API server and the CRD here do not agree: %w", errors.Join(refused, here))
	}
	if refused != nil {
		answers.Refused.Add(1)
		return nil //nolint:nilerr // it is right to refuse it
	}
	answers.Admitted.Add(1)
	if diff := gocmp.Diff(answer.Object["spec"], object["spec"]); diff != "" {
		return fmt.Errorf("the API server and the CRD here fill in other defaults (-server +here):\n%s", diff)
	}
	job, err := Typed(s.Controller, answer.Object)
	if err != nil {
		return err
	}
	if model.CountReplicas(s.Controller.Framework.JobSpec(job)) >= many {
		answers.Untried.Add(1)
		return nil
	}
	starts := []J{job}
	if mode := s.Controller.Framework.JobSpec(job).RunMode; mode != nil && mode.Pause != nil {
		starts = append(starts, resumed(s.Controller, job))
	}
	for _, job := range starts {
		if err := s.begin(ctx, job, answers); err != nil {
			return err
		}
	}
	return nil
}

// namesField matches a complaint that names a field.
var namesField = regexp.MustCompile(`\b(spec|metadata)\b`)

// goodRefusal returns an error if that of the API server does not help a user: each complaint must name the field, and
// a rule that could not be evaluated, since a number is of no size that it can be, must not be the only one.
func goodRefusal(err error) error {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return fmt.Errorf("the API server fails: %w", err)
	}
	helps := false
	for _, complaint := range complaints(status.Status()) {
		switch {
		case strings.Contains(complaint, "cost"), strings.Contains(complaint, "budget"):
			return fmt.Errorf("a rule costs too much: %q: %w", complaint, err)
		case !namesField.MatchString(complaint):
			return fmt.Errorf("the API server does not name the field: %q: %w", complaint, err)
		case !strings.Contains(complaint, "evaluating rule"):
			helps = true
		}
	}
	if !helps {
		return fmt.Errorf("the API server could not tell: %w", err)
	}
	return nil
}

// complaints are what an answer of the API server says, one by one.
func complaints(status metav1.Status) []string {
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return []string{status.Message}
	}
	var list []string
	for _, cause := range status.Details.Causes {
		// it comes with what is to be corrected first
		if !strings.Contains(cause.Message, "some validation rules were not checked") {
			list = append(list, cause.Field+": "+cause.Message)
		}
	}
	return list
}

// begin lets the controller make the pods of a job, and the API server say whether it would take them.
func (s *Survey[J]) begin(ctx context.Context, job J, answers *Answers) error {
	asked := &dryRun{server: s.Server, refused: map[string]error{}}
	begun, err := Begin(ctx, s.Controller, job, func(own client.Client) client.Client {
		asked.Client = own
		return asked
	})
	if err != nil {
		return err
	}
	answers.Pods.Add(asked.taken)
	if err := Broken(ctx, s.CRD, begun); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(asked.refused)) {
		if err := s.explain(ctx, begun, name, asked.refused[name], answers); err != nil {
			return err
		}
	}
	return nil
}

// explain returns an error if the API server refused an object of a job for a reason that is the controller's, and not
// the user's, or if the job does not say that it was refused.
func (s *Survey[J]) explain(ctx context.Context, begun Begun[J], name string, refused error, answers *Answers) error {
	initialized := meta.FindStatusCondition(begun.Job.JobStatus().Conditions, batchv1beta1.ConditionInitialized)
	if initialized == nil || initialized.Status != metav1.ConditionFalse ||
		initialized.Reason != batchv1beta1.ReasonCreateFailed {
		return fmt.Errorf("the job does not say that %s was refused: %+v\n%w", name, initialized, refused)
	}
	bare := barePod(begun, name)
	if bare == nil {
		return fmt.Errorf("%s is not valid: %w", name, refused)
	}
	switch err := s.Server.Create(ctx, bare, client.DryRunAll); {
	case err == nil:
		return fmt.Errorf("pod %s is not valid because of the controller, since its template is by itself: %w", name, refused)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsInternalError(err):
		// An internal error is what some admission plugins make of names that are none.
		answers.BadTemplates.Add(1)
		return nil // it is right to refuse it
	default:
		return fmt.Errorf("the API server fails at the bare pod %s: %w", name, err)
	}
}

// barePod returns the pod that the template of a replica makes by itself, or nil if no replica is of that name.
func barePod[J framework.Job](begun Begun[J], name string) *corev1.Pod {
	for _, role := range begun.Spec.Roles {
		for index := range role.Replicas {
			if framework.MemberName(begun.Job.GetName(), role.Type, index) != name {
				continue
			}
			template := role.Template.DeepCopy()
			template.Spec.RestartPolicy = corev1.RestartPolicyNever
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: begun.Job.GetNamespace(), Name: name, Labels: template.Labels, Annotations: template.Annotations,
				},
				Spec: template.Spec,
			}
		}
	}
	return nil
}

// dryRun is the model of the API server, which here creates only what the real one would take.
type dryRun struct {
	client.Client

	server client.Client

	mu sync.Mutex
	// taken is how many pods the API server would take.
	taken int64
	// refused are the objects that it would not, by name.
	refused map[string]error
}

// Create implements client.Writer. Of the replicas of a type, whose pods differ by their index, it asks about the first
// two.
func (d *dryRun) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	pod, isPod := object.(*corev1.Pod)
	if isPod {
		if index, err := strconv.Atoi(pod.Labels[batchv1beta1.LabelReplicaIndex]); err == nil && index > 1 {
			return d.Client.Create(ctx, object, options...)
		}
	}
	asked := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the copy of a client.Object is one
	err := d.server.Create(ctx, asked, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if err := d.note(object.GetName(), isPod, err); err != nil {
		return err
	}
	return d.Client.Create(ctx, object, options...)
}

// note remembers what the API server said of an object, and returns it.
func (d *dryRun) note(name string, isPod bool, answer error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case answer != nil:
		d.refused[name] = answer
	case isPod:
		d.taken++
	}
	return answer
}
