package input

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/deepspeed"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/pytorch"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/scheduler"
	"tensorstack.dev/jobs/tensorboard"
	"tensorstack.dev/jobs/tensorflow"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// Cache transforms objects as the cache of a controller does.
type Cache struct {
	// transforms maps the type of an object to the function that transforms it. The function fallback transforms objects
	// of other types.
	transforms map[reflect.Type]toolscache.TransformFunc
	fallback   toolscache.TransformFunc
	// owner is the owner reference of the objects that the controller creates.
	owner metav1.OwnerReference
}

// Caches are the caches of all controllers.
type Caches struct {
	PyTorch, TensorFlow, DeepSpeed, TensorBoard, Scheduler Cache
}

// NewCaches returns the caches of all controllers.
func NewCaches() (caches Caches, err error) {
	scheme, err := Scheme()
	if err != nil {
		return caches, err
	}
	options, transforms := controller.DefaultOptions(), dependents.Transforms()
	for _, c := range []struct {
		cache   *Cache
		program manager.Program
		owner   client.Object
		more    map[client.Object]toolscache.TransformFunc
	}{
		{
			&caches.PyTorch, manager.JobProgram(pytorch.Controller(), options), &pytorchv1beta1.PyTorchTrainingJob{},
			transforms,
		},
		{
			&caches.TensorFlow, manager.JobProgram(tensorflow.Controller(), options), &tensorflowv1beta1.TensorFlowTrainingJob{},
			transforms,
		},
		{
			&caches.DeepSpeed, manager.JobProgram(deepspeed.Controller(), options), &deepspeedv1beta1.DeepSpeedJob{},
			transforms,
		},
		{&caches.TensorBoard, tensorboard.Program(tensorboard.DefaultOptions()), &tensorboardv1beta1.TensorBoard{}, nil},
		{&caches.Scheduler, scheduler.Program(scheduler.DefaultOptions()), &schedulerv1beta1.PodGroup{}, nil},
	} {
		if *c.cache, err = newCache(scheme, c.program, c.owner, c.more); err != nil {
			return caches, err
		}
	}
	return caches, nil
}

// Scheme returns a scheme with all kinds that a controller caches.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, schedulerv1beta1.AddToScheme, tensorboardv1beta1.AddToScheme, kueuev1beta2.AddToScheme,
		volcanov1beta1.AddToScheme, pytorchv1beta1.AddToScheme, tensorflowv1beta1.AddToScheme, deepspeedv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newCache returns the cache of a program. The objects that the program creates have an owner of the same kind as the
// argument owner. The cache has the transforms of program.Cache. For other types, it has the transforms in the
// argument more.
func newCache(
	scheme *runtime.Scheme, program manager.Program, owner client.Object, more map[client.Object]toolscache.TransformFunc,
) (Cache, error) {
	options, err := program.Cache(scheme, manager.Options{})
	if err != nil {
		return Cache{}, err
	}
	kind, err := apiutil.GVKForObject(owner, scheme)
	if err != nil {
		return Cache{}, err
	}
	c := Cache{
		fallback: options.DefaultTransform, transforms: map[reflect.Type]toolscache.TransformFunc{},
		owner: metav1.OwnerReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: "owner", UID: "owner-uid", Controller: new(true),
		},
	}
	for object, transform := range more {
		c.transforms[reflect.TypeOf(object)] = transform
	}
	for object, by := range options.ByObject {
		if by.Transform != nil {
			c.transforms[reflect.TypeOf(object)] = by.Transform
		}
	}
	return c, nil
}

// Hold returns an object as the cache would store it. It can change the argument.
func (c Cache) Hold(object client.Object) (client.Object, error) {
	transform, ok := c.transforms[reflect.TypeOf(object)]
	if !ok {
		transform = c.fallback
	}
	held, err := transform(object)
	if err != nil {
		return nil, err
	}
	kept, ok := held.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the cache holds %T for %T", held, object)
	}
	return kept, nil
}

// Owned returns an object of the same type as empty. Its owner reference is the one that the controller sets on the
// objects that it creates.
func (c Cache) Owned(empty client.Object) client.Object {
	object := reflect.New(reflect.TypeOf(empty).Elem()).Interface().(client.Object) //nolint:forcetypeassert // like empty
	object.SetNamespace("namespace")
	object.SetName("object")
	object.SetOwnerReferences([]metav1.OwnerReference{c.owner})
	return object
}
