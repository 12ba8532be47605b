package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

var updateRecording = flag.Bool("conformance.update-recording", false,
	"write what the controller does to testdata/recording, instead of comparing it with the files there")

// TestControllerDoesWhatIsRecorded compares what the controller does in each scenario without a fault with the files of
// testdata/recording: its writes with their content, its live reads and its events. Only a change of the behavior of
// the controller may change these files.
func TestControllerDoesWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]func(model.Kind) model.Kind{
		"plain":           func(k model.Kind) model.Kind { return k },
		"mesh":            model.Kind.InMesh,
		"holding-leaders": model.Kind.HoldingLeaders,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := model.KindOf(plainController(), newPlainJob)
			if err != nil {
				t.Fatal(err)
			}
			testRecording(t, variant(k), filepath.Join("testdata", "recording", name+".txt"))
		})
	}
}

// testRecording compares what the controller does with a recording in a file, or updates the file.
func testRecording(t *testing.T, k model.Kind, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !*updateRecording {
		t.Fatal(err)
	}
	recorded := parseRecording(string(content))
	for name := range recorded.scenarios {
		isIt := func(s scenario) bool { return s.name == name && s.isFor(k) }
		if !slices.ContainsFunc(scenarios, isIt) && !*updateRecording {
			t.Errorf("%s has the scenario %q, which does not exist", file, name)
		}
	}
	done := recording{scenarios: map[string][]string{}, objects: map[string]string{}}
	for _, s := range scenarios {
		if !s.isFor(k) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, k)
			o := &observer{world: w, objects: done.objects, names: map[string]string{}, created: map[string]int{}}
			w.witness = o
			s.play(w, fault{}, nil)
			done.scenarios[s.name] = o.actions
			if diff := cmp.Diff(recorded.of(s.name), done.of(s.name)); diff != "" && !*updateRecording {
				t.Errorf("the controller does not do what is recorded (-recorded +done):\n%s", diff)
			}
		})
	}
	if !*updateRecording {
		return
	}
	if err := os.WriteFile(file, []byte(done.format()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// recording is what the controller does in all scenarios.
type recording struct {
	// scenarios are the actions of the controller in each scenario: writes, live reads and events. Each has the time since
	// the job was created. A creation has the digest of the object, and another write a JSON merge patch with the change.
	scenarios map[string][]string
	// objects are the objects that the controller creates, by their digests.
	objects map[string]string
}

// format returns the text of the recording: first the objects, then the actions of each scenario below its name.
func (r recording) format() string {
	var b strings.Builder
	for _, digest := range slices.Sorted(maps.Keys(r.objects)) {
		fmt.Fprintf(&b, "%s %s\n", digest, r.objects[digest])
	}
	for _, name := range slices.Sorted(maps.Keys(r.scenarios)) {
		fmt.Fprintf(&b, "\n# %s\n%s\n", name, strings.Join(r.scenarios[name], "\n"))
	}
	return b.String()
}

// parseRecording returns the recording that format has written.
func parseRecording(text string) recording {
	r := recording{scenarios: map[string][]string{}, objects: map[string]string{}}
	sections := strings.Split(strings.TrimSpace(text), "\n\n# ")
	for line := range strings.Lines(sections[0]) {
		digest, object, _ := strings.Cut(strings.TrimSpace(line), " ")
		r.objects[digest] = object
	}
	for _, section := range sections[1:] {
		name, actions, _ := strings.Cut(section, "\n")
		r.scenarios[name] = strings.Split(actions, "\n")
	}
	return r
}

// of returns the actions of a scenario, with the objects that they create.
func (r recording) of(scenario string) []string {
	actions := slices.Clone(r.scenarios[scenario])
	for i, action := range actions {
		if digest := action[strings.LastIndexByte(action, ' ')+1:]; r.objects[digest] != "" {
			actions[i] = strings.TrimSuffix(action, digest) + r.objects[digest]
		}
	}
	return actions
}

// observer records what the controller does in one scenario.
type observer struct {
	mu      sync.Mutex
	world   *world
	actions []string
	// objects are the objects that the controller creates, by their digests.
	objects map[string]string
	// names are names for the UIDs of objects. A UID depends on the order of writes that happen in parallel.
	names map[string]string
	// created is the number of objects that were created so far, by key.
	created map[string]int
}

var _ witness = &observer{}

// changed implements witness.
func (o *observer) changed(change model.Change, byController bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if change.Before == nil {
		o.created[change.Key]++
		o.names[string(change.After.GetUID())] = fmt.Sprintf("%s#%d", change.Key, o.created[change.Key])
	}
	switch {
	case !byController:
	case change.Before == nil:
		object := o.encode(change.After)
		hash := fnv.New64a()
		_, _ = hash.Write(object) // never fails
		digest := fmt.Sprintf("%016x", hash.Sum64())
		o.objects[digest] = string(object)
		o.add("create " + change.Key + " " + digest)
	case change.After == nil:
		o.add("delete " + change.Key)
	default:
		patch, err := jsonpatch.CreateMergePatch(byType(o.encode(change.Before)), byType(o.encode(change.After)))
		if err != nil {
			panic(err) // both are JSON objects
		}
		o.add("change " + change.Key + " " + string(patch))
	}
}

// readLive implements witness.
func (o *observer) readLive(call model.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add("live " + call.String())
}

// emitted implements witness.
func (o *observer) emitted(eventtype, reason, message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add("event " + eventtype + " " + reason + ": " + strings.ReplaceAll(message, "\n", `\n`))
}

// add appends an action. Pods are written in parallel, so the writes of a batch are sorted.
func (o *observer) add(action string) {
	action = o.world.clock.Now().Sub(model.Birth).String() + " " + action
	at := len(o.actions)
	for at > 0 && areOneBatch(o.actions[at-1], action) && o.actions[at-1] > action {
		at--
	}
	o.actions = slices.Insert(o.actions, at, action)
}

// areOneBatch reports whether two actions do the same to two pods at the same time.
func areOneBatch(a, b string) bool {
	verb, _, isPod := strings.Cut(a, " Pod/")
	return isPod && strings.HasPrefix(b, verb+" Pod/")
}

// uid and token match a UID of the model and a random token.
var (
	uid   = regexp.MustCompile(`uid-\d+`)
	token = regexp.MustCompile(`("batch.tensorstack.dev/progress-token":)"[^"]+"`)
)

// encode returns the JSON of an object without random values and without what the API server sets. The names of other
// objects replace their UIDs.
func (o *observer) encode(object client.Object) []byte {
	object = object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the copy of a client.Object is one
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetCreationTimestamp(metav1.Time{})
	content, err := json.Marshal(object)
	if err != nil {
		panic(err) // the API server could not encode the object either
	}
	content = token.ReplaceAll(content, []byte(`$1"random"`))
	return uid.ReplaceAllFunc(content, func(uid []byte) []byte { return []byte(o.names[string(uid)]) })
}

// byType returns a JSON object in which the conditions and the tasks of the status are maps by their type, so that a
// merge patch has only those that change.
func byType(object []byte) []byte {
	var decoded map[string]any
	if err := json.Unmarshal(object, &decoded); err != nil {
		panic(err) // it is a JSON object
	}
	status, _ := decoded["status"].(map[string]any)
	for _, field := range []string{"conditions", "tasks"} {
		list, _ := status[field].([]any)
		elements := map[string]any{}
		for _, element := range list {
			fields, _ := element.(map[string]any)
			elements[fmt.Sprint(fields["type"])] = fields
		}
		if len(list) > 0 {
			status[field] = elements
		}
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		panic(err) // it was JSON
	}
	return encoded
}
