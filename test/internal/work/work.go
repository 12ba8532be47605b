// Package work measures how the work of the controllers for an object grows with the lists that a tenant can fill.
package work

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/deepspeed"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/pytorch"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/tensorflow"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
	"tensorstack.dev/jobs/test/internal/input"
)

// Subject is a controller and a kind. The tests measure how much work the controller does for objects of the kind.
type Subject struct {
	// Name has the name of the controller and the kind.
	Name string
	// Lists are the lists and maps of the objects.
	Lists []input.Place
	// new returns a small object.
	new func() client.Object
	// do does the work of the controller for an object.
	do func(context.Context, client.Object) error
}

// Do does the work for a small object. It returns the errors of the controller.
func (s Subject) Do(ctx context.Context) error { return s.do(ctx, s.new()) }

// Case is the work for an object with one long list: List has as many items as the field Items sets.
type Case struct {
	Subject Subject
	List    input.Place
	Items   int
	// Hard is true if the names of the items are similar (see input.Similar) and the lists in each item are long.
	Hard bool
}

// Do does the work of a case. It returns the errors of the controller.
func (c Case) Do(ctx context.Context) error {
	object := c.Subject.new()
	name := func(i int) string { return fmt.Sprintf("item-%d", i) }
	if c.Hard {
		name = input.Similar
		for _, inner := range c.Subject.Lists {
			if field, ok := strings.CutPrefix(inner.Path, c.List.Path+"[]."); ok && !strings.ContainsAny(field, "[{") {
				inner.Add(object, long, name)
			}
		}
	}
	c.List.Add(object, c.Items, name)
	return c.Subject.do(ctx, object)
}

// long is the number of items of an inner list in a hard case. An inner list is in an item of the list that the case
// is about. If the CRD allows fewer items, the inner list has fewer.
const long = 16

// String describes a case.
func (c Case) String() string {
	text := fmt.Sprintf("%s: %s of %d items", c.Subject.Name, c.List.Path, c.Items)
	if c.Hard {
		text += " with similar names and long lists"
	}
	return text
}

// MaxGrowth is the factor by which the work may grow when a list has 4 times as many items. Linear work grows by a
// factor of 4, sorting by 5, and quadratic work by 16.
const MaxGrowth = 6

// Growth returns the factor by which the work grows when a list has 4 times as many items. The values are the
// measurements of the three cases of a Series.
func Growth(values [3]float64) float64 { return values[2] / max(values[1], 1) }

// Series has three cases of one list. The list has one item in the first case, several items in the second, and 4
// times as many items in the third as in the second.
type Series [3]Case

// AllSeries returns two series, one of them with Case.Hard, for each list that can have at least 16 items.
func AllSeries(subjects []Subject) []Series {
	var all []Series
	for _, s := range subjects {
		for _, list := range s.Lists {
			few := some
			if list.Most > 0 {
				few = min(few, list.Most/growth)
			}
			if few < 4 {
				continue
			}
			for _, hard := range []bool{false, true} {
				var series Series
				for i, items := range []int{1, few, growth * few} {
					series[i] = Case{Subject: s, List: list, Items: items, Hard: hard}
				}
				all = append(all, series)
			}
		}
	}
	return all
}

const (
	// growth is the ratio of the numbers of items in the third and the second case of a Series.
	growth = 4
	// some is the number of items in the second case. If the CRD does not allow 4 times as many items, the second case
	// has only a quarter of the items that the CRD allows.
	some = 64
)

// depth limits how deep in an object the measured lists are. It is deep enough for the lists of the containers in the
// template of a job.
const depth = 8

// Subjects returns a subject for each controller. The parameter root is the root of the repository.
func Subjects(root string) ([]Subject, error) {
	repository, err := input.Read(root)
	if err != nil {
		return nil, err
	}
	caches, err := input.NewCaches()
	if err != nil {
		return nil, err
	}
	scheme, err := input.Scheme()
	if err != nil {
		return nil, err
	}
	var subjects []Subject
	add := func(name string, depth int, example client.Object, do func(context.Context, client.Object) error) error {
		kind, err := apiutil.GVKForObject(example, scheme)
		if err != nil {
			return err
		}
		places := repository.PlacesOf(example, kind.GroupKind(), depth)
		subjects = append(subjects, Subject{
			Name:  name + " " + kind.Kind,
			Lists: slices.DeleteFunc(places, func(p input.Place) bool { return !p.IsList }),
			new:   func() client.Object { return example.DeepCopyObject().(client.Object) }, //nolint:forcetypeassert // a copy
			do:    do,
		})
		return nil
	}
	for _, s := range []struct {
		name    string
		file    string
		example client.Object
		do      func(context.Context, client.Object) error
	}{
		{
			"pytorch-controller", "examples/pytorch/master-worker.yaml", &pytorchv1beta1.PyTorchTrainingJob{},
			jobs(caches.PyTorch, pytorch.Controller().Framework),
		},
		{
			"tensorflow-controller", "examples/tensorflow/multi-worker.yaml", &tensorflowv1beta1.TensorFlowTrainingJob{},
			jobs(caches.TensorFlow, tensorflow.Controller().Framework),
		},
		{
			"deepspeed-controller", "examples/deepspeed/zero.yaml", &deepspeedv1beta1.DeepSpeedJob{},
			jobs(caches.DeepSpeed, deepspeed.Controller().Framework),
		},
		{
			"tensorboard-controller", "examples/tensorboard/claim.yaml", &tensorboardv1beta1.TensorBoard{},
			boards(caches.TensorBoard),
		},
	} {
		content, err := os.ReadFile(filepath.Join(root, s.file))
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(content, s.example); err != nil {
			return nil, fmt.Errorf("%s: %w", s.file, err)
		}
		s.example.SetNamespace(namespace)
		s.example.SetUID("uid")
		if err := add(s.name, depth, s.example, s.do); err != nil {
			return nil, err
		}
	}
	group := &schedulerv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group", UID: "uid"}}
	group.Spec.Queue = queueName
	return subjects, add("scheduler-controller", depth, group, groups(caches.Scheduler))
}
