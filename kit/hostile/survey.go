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
	"tensorstack.dev/jobs/common/crd"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/model"
)

// Survey sends jobs to a real API server as dry runs: the jobs in the manifests and distorted variants of them.
type Survey[J framework.Job] struct {
	Controller framework.Controller[J]
	CRD        *crd.Definition
	Manifests  []map[string]any
	// Server is a client of the API server, on which the CRD is installed.
	Server client.Client
	// Namespace of the jobs.
	Namespace string
	// Jobs is the number of jobs. Seed is the seed for their distortion.
	Jobs int
	Seed uint64
}

// Answers counts the answers of the API server.
type Answers struct {
	// Admitted and Refused are the numbers of jobs that the API server accepts and rejects. Untried is the number of
	// accepted jobs whose pods are not created, because the jobs have too many replicas.
	Admitted, Refused, Untried atomic.Int64
	// Pods is the number of pods that the API server accepts. BadTemplates is the number of pods that it rejects both with
	// and without the changes by the controller.
	Pods, BadTemplates atomic.Int64
}

// String returns the counts as a sentence.
func (a *Answers) String() string {
	return fmt.Sprintf("jobs: %d accepted (%d of them with too many replicas to create pods), %d rejected; "+
		"pods: %d accepted, %d rejected because of their template",
		a.Admitted.Load(), a.Untried.Load(), a.Refused.Load(), a.Pods.Load(), a.BadTemplates.Load())
}

// Ask sends all jobs and checks the answers. If the API server rejects a job, its message must name the field. The
// local CRD must admit the same jobs as the API server, with the same defaults. The pods of an admitted job must be
// valid if their templates are valid on their own, and its TensorBoard must always be valid.
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
		t.Errorf("the survey has tried too few jobs or pods: %s", answers)
	}
	return answers
}

// job returns the job with the given number, both as the API server decodes it and as a JSON document. The first jobs
// are the unchanged jobs in the manifests.
func (s *Survey[J]) job(i int) (object map[string]any, document []byte) {
	object = kruntime.DeepCopyJSON(s.Manifests[i%len(s.Manifests)])
	inNamespace(object, s.Namespace)
	if i >= len(s.Manifests) {
		//nolint:gosec // jobs must be repeatable, and an index is never negative
		random := rand.New(rand.NewPCG(s.Seed, uint64(i)))
		Distort(random, s.CRD, object, 1+random.IntN(4))
	}
	document, err := json.Marshal(object)
	if err != nil {
		panic(err) // manifests and distorted jobs are JSON
	}
	sent := map[string]any{} // the job as the API server decodes it, where 1.0 is 1
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
		return fmt.Errorf("only one of the API server and the local CRD rejects the job: %w", errors.Join(refused, here))
	}
	if refused != nil {
		answers.Refused.Add(1)
		if diff := gocmp.Diff(reasons(refused), reasons(here)); diff != "" {
			return fmt.Errorf("the API server and the local CRD give different reasons (-server +local):\n%s", diff)
		}
		return nil
	}
	answers.Admitted.Add(1)
	if diff := gocmp.Diff(answer.Object["spec"], object["spec"]); diff != "" {
		return fmt.Errorf("the API server and the local CRD set different defaults (-server +local):\n%s", diff)
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

// outOfBudget is in each message of the API server about CEL rules whose cost exceeds a limit.
const outOfBudget = "no further validation rules will be run"

// namesField matches a complaint that names a field.
var namesField = regexp.MustCompile(`\b(spec|metadata)\b`)

// goodRefusal checks that the error of the API server helps a user, and returns an error if not. Each complaint must
// name the field. Some complaints are only that a rule cannot be evaluated, for example because a number is out of
// range. At least one complaint must be of another kind.
func goodRefusal(err error) error {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return fmt.Errorf("the API server fails instead of rejecting the job: %w", err)
	}
	helps := false
	for _, complaint := range complaints(status.Status()) {
		switch {
		case strings.Contains(complaint, outOfBudget):
			return fmt.Errorf("a CEL rule exceeds the cost limit: %q: %w", complaint, err)
		case !namesField.MatchString(complaint):
			return fmt.Errorf("the error of the API server does not name the field: %q: %w", complaint, err)
		case !strings.Contains(complaint, "evaluating rule"):
			helps = true
		}
	}
	if !helps {
		return fmt.Errorf("the API server could not evaluate any rule that the job violates: %w", err)
	}
	return nil
}

// reasons returns the complaints in an error, sorted. Their original order is random, because some validations iterate
// over maps.
func reasons(err error) []string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return slices.Sorted(slices.Values(complaints(status.Status())))
	}
	return []string{err.Error()}
}

// complaints returns the individual complaints in an error of the API server.
func complaints(status metav1.Status) []string {
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return []string{status.Message}
	}
	var list []string
	for _, cause := range status.Details.Causes {
		// This message only accompanies other complaints.
		if !strings.Contains(cause.Message, "some validation rules were not checked") {
			list = append(list, cause.Field+": "+cause.Message)
		}
	}
	return list
}

// begin makes the controller create the pods of a job. It checks that the API server accepts the pods, or rejects them
// because of their template.
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

// explain returns an error if the API server rejects an object because of the controller and not because of the user's
// template, or if the job does not report the rejection.
func (s *Survey[J]) explain(ctx context.Context, begun Begun[J], name string, refused error, answers *Answers) error {
	initialized := meta.FindStatusCondition(begun.Job.JobStatus().Conditions, batchv1beta1.ConditionInitialized)
	if initialized == nil || initialized.Status != metav1.ConditionFalse ||
		initialized.Reason != batchv1beta1.ReasonCreateFailed {
		return fmt.Errorf("the job does not report that the API server rejected %s: %+v\n%w", name, initialized, refused)
	}
	bare := barePod(begun, name)
	if bare == nil {
		return fmt.Errorf("the API server rejects %s: %w", name, refused)
	}
	switch err := s.Server.Create(ctx, bare, client.DryRunAll); {
	case err == nil:
		return fmt.Errorf("the controller makes pod %s invalid, although its template alone is valid: %w", name, refused)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsInternalError(err):
		// An internal error also shows that the template is invalid: some admission plugins return one for an invalid name.
		answers.BadTemplates.Add(1)
		return nil // the template alone is invalid, too
	default:
		return fmt.Errorf("the API server fails at the dry run of pod %s from its template alone: %w", name, err)
	}
}

// barePod returns a pod with the name and the template of a replica. Of the changes that the controller makes to the
// template, barePod makes only one: it sets the restart policy Never. It returns nil if no replica has the name.
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

// dryRun is a client of the model of the API server. It creates an object only if the real API server accepts the
// object in a dry run.
type dryRun struct {
	client.Client

	server client.Client

	mu sync.Mutex
	// taken is the number of pods that the API server accepts.
	taken int64
	// refused are the errors for the objects that the API server rejects, by name.
	refused map[string]error
}

// Create implements client.Writer. The pods of a type differ only by their index. So for each type, Create asks the
// real API server only about the pods of the first two replicas, and creates the others without asking.
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

// note records the answer of the API server for an object, and returns the answer.
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
