// Package caches checks that the caches of the controllers use little memory for each object, whatever a tenant can
// write into it.
package caches

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/memsize"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
	"tensorstack.dev/jobs/test/internal/input"
)

// root is the root of the repository.
const root = "../.."

// accepted is the size of the largest object that the API server accepts, in bytes of JSON.
const accepted = 1_500_000

// depth is the maximum number of fields and items in the path of a checked place (see input.Place). Deeper places
// need no check: a cache that keeps a deeper place also keeps the checked place that contains it.
const depth = 6

// kept lists the kinds in the cache of each controller. The field most is the maximum size, in bytes of memory, of
// one cached object of these kinds.
var kept = []struct {
	controller string
	cache      func(input.Caches) input.Cache
	kinds      []client.Object
	most       int64
}{
	{jobs, ofPyTorch, []client.Object{&pytorchv1beta1.PyTorchTrainingJob{}}, 130 << 10},
	{jobs, ofTensorFlow, []client.Object{&tensorflowv1beta1.TensorFlowTrainingJob{}}, 130 << 10},
	{jobs, ofDeepSpeed, []client.Object{&deepspeedv1beta1.DeepSpeedJob{}}, 130 << 10},
	// All job controllers cache the kinds below in the same way, so the cache of one controller is enough.
	{jobs, ofPyTorch, []client.Object{&corev1.Pod{}}, 64 << 10},
	{jobs, ofPyTorch, []client.Object{
		&schedulerv1beta1.PodGroup{}, &tensorboardv1beta1.TensorBoard{}, &kueuev1beta2.Workload{},
	}, 20 << 10},
	{jobs, ofPyTorch, []client.Object{&corev1.ResourceQuota{}}, 64 << 10},
	{jobs, ofPyTorch, []client.Object{&corev1.Service{}, &networkingv1.NetworkPolicy{}}, 4 << 10},
	{"tensorboard-controller", ofTensorBoard, []client.Object{&tensorboardv1beta1.TensorBoard{}}, 34 << 10},
	{"tensorboard-controller", ofTensorBoard, []client.Object{&corev1.Pod{}}, 64 << 10},
	{"tensorboard-controller", ofTensorBoard, []client.Object{&corev1.Service{}, &networkingv1.NetworkPolicy{}}, 4 << 10},
	{"scheduler-controller", ofScheduler, []client.Object{&schedulerv1beta1.PodGroup{}}, 160 << 10},
	{"scheduler-controller", ofScheduler, []client.Object{
		&corev1.Pod{}, &volcanov1beta1.PodGroup{}, &schedulingv1beta1.PodGroup{}, &resourcev1.ResourceClaim{},
	}, 16 << 10},
}

// jobs is the name of the job controllers in the table of docs/contribute/threat-model.md.
const jobs = "job controllers"

func ofPyTorch(c input.Caches) input.Cache     { return c.PyTorch }
func ofTensorFlow(c input.Caches) input.Cache  { return c.TensorFlow }
func ofDeepSpeed(c input.Caches) input.Cache   { return c.DeepSpeed }
func ofTensorBoard(c input.Caches) input.Cache { return c.TensorBoard }
func ofScheduler(c input.Caches) input.Cache   { return c.Scheduler }

func TestCachesKeepLittleOfAnyObject(t *testing.T) {
	t.Parallel()
	repository, err := input.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	caches, err := input.NewCaches()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range kept {
		for _, empty := range row.kinds {
			kind := kindOf(t, empty)
			t.Run(fmt.Sprintf("%s/%s", row.controller, kind.GroupKind()), func(t *testing.T) {
				t.Parallel()
				checkKind(t, row.cache(caches), empty, repository.PlacesOf(empty, kind.GroupKind(), depth), row.most)
			})
		}
	}
}

func kindOf(t *testing.T, object client.Object) schema.GroupVersionKind {
	t.Helper()
	scheme, err := input.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return gvk
}

// checkKind checks that the cache keeps no more bytes of an object than the parameter most. It tries objects of three
// sorts: with one large place (see input.Place), with a list of large items, and with several random large places.
func checkKind(t *testing.T, c input.Cache, empty client.Object, places []input.Place, most int64) {
	t.Helper()
	if len(places) < 10 {
		t.Fatalf("found only %d places", len(places))
	}
	largest, where := int64(0), ""
	check := func(object client.Object, what string) bool {
		if content, err := json.Marshal(object); err != nil || len(content) > accepted {
			return false // the API server rejects it
		}
		for range 2 { // a cache can transform an object twice
			var err error
			if object, err = c.Hold(object); err != nil {
				t.Fatal(err)
			}
		}
		if size := memsize.Of(object); size > largest {
			largest, where = size, what
		}
		return true
	}
	for _, p := range places {
		isAccepted := false
		for bytes := accepted * 9 / 10; bytes > 0 && !isAccepted; bytes /= 2 {
			object := c.Owned(empty)
			p.Grow(object, bytes)
			isAccepted = check(object, fmt.Sprintf("%s of %d bytes", p.Path, bytes))
		}
		if !isAccepted {
			t.Errorf("%s was not checked", p.Path)
		}
		object := c.Owned(empty)
		p.Grow(object, 30<<10) // some caches keep an object of this size completely
		check(object, p.Path+" of 30 KiB")
	}
	for _, list := range places {
		object, isList := c.Owned(empty), false
		for _, p := range places {
			if strings.HasPrefix(p.Path, list.Path+"[]") {
				isList = true
				p.Grow(object, 200)
			}
		}
		if isList {
			list.Grow(object, accepted/2)
			check(object, list.Path+" of large items")
		}
	}
	const draws = 50
	for seed := range uint64(draws) {
		random := rand.New(rand.NewPCG(seed, 0))
		object := c.Owned(empty)
		n := 1 + random.IntN(100)
		var chosen []string
		for range n {
			p := places[random.IntN(len(places))]
			p.Grow(object, random.IntN(2*accepted/n))
			chosen = append(chosen, p.Path)
		}
		check(object, fmt.Sprintf("%v of seed %d", chosen, seed))
	}
	t.Logf("keeps at most %d bytes, with %s", largest, where)
	if largest > most {
		t.Errorf("the cache keeps %d bytes of an object with %s, want at most %d", largest, where, most)
	}
}

// clusterScoped are the cluster-scoped kinds that controllers cache. Tenants cannot write objects of these kinds.
var clusterScoped = []string{
	"/namespaces", "/nodes", "scheduling.k8s.io/priorityclasses", "scheduler.tensorstack.dev/queues",
	"scheduling.volcano.sh/queues",
}

func TestAllWatchedKindsAreChecked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "*/config/controller.yaml"))
	components, err2 := filepath.Glob(filepath.Join(root, "deploy/scheduler/*/controller/rbac.yaml"))
	if err != nil || err2 != nil || len(files) == 0 || len(components) == 0 {
		t.Fatal("found no permissions: ", err, err2)
	}
	watched := map[string]bool{
		// Only optional kustomize components let controllers watch these resources. The files below do not include them.
		"networking.k8s.io/networkpolicies": true, "kueue.x-k8s.io/workloads": true,
	}
	for _, file := range append(files, components...) {
		for _, resource := range watchedBy(t, file) {
			watched[resource] = true
		}
	}
	checked := map[string]bool{}
	for _, resource := range clusterScoped {
		checked[resource] = true
	}
	for _, row := range kept {
		for _, kind := range row.kinds {
			gvk := kindOf(t, kind)
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			checked[plural.Group+"/"+plural.Resource] = true
		}
	}
	if diff := cmp.Diff(watched, checked); diff != "" {
		t.Errorf("the checked kinds are not those that controllers watch (-watched +checked):\n%s", diff)
	}
}

// watchedBy returns the resources, with their API groups, of all rules that have the verb watch in a file.
func watchedBy(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var resources []string
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			continue // the document is not a role
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, "watch") {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						resources = append(resources, group+"/"+resource)
					}
				}
			}
		}
	}
	return resources
}

var update = flag.Bool("update", false, "write the table of docs/contribute/threat-model.md")

func TestTheTableOfTheDocumentShowsTheLimits(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- test/caches writes this table. -->\n", "<!-- end of the table -->"
	file := filepath.Join(root, "docs/contribute/threat-model.md")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	table := "\n| Controllers | Kind | At most |\n| --- | --- | --- |\n"
	for _, row := range kept {
		var names []string
		for _, kind := range row.kinds {
			gvk := kindOf(t, kind)
			name := gvk.Kind
			if gvk.Kind == "PodGroup" && gvk.Group != schedulerv1beta1.GroupVersion.Group {
				name += " of " + gvk.Group
			}
			names = append(names, name)
		}
		table += fmt.Sprintf("| %s | %s | %d KiB |\n", row.controller, strings.Join(names, ", "), row.most>>10)
	}
	want := before + begin + table + "\n" + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("run `go test ./test/caches -update` (-want +got):\n%s", diff)
	}
}
