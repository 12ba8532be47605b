package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestMainContainer(t *testing.T) {
	t.Parallel()
	containers := func(names ...string) []corev1.Container {
		var list []corev1.Container
		for _, name := range names {
			list = append(list, corev1.Container{Name: name})
		}
		return list
	}
	for name, tc := range map[string]struct {
		containers []corev1.Container
		// want is the index of the main container.
		want int
	}{
		"the only container is the main container": {containers: containers("any"), want: 0},
		"the first container is the main container if no name matches": {
			containers: containers("a", "b"), want: 0,
		},
		"a container with a listed name is the main container": {containers: containers("sidecar", "python"), want: 1},
		"a name earlier in the list wins, whatever the order of the containers": {
			containers: containers("python", "sidecar", "pytorch"), want: 2,
		},
		"a name that only begins with a listed name does not match": {
			containers: containers("a", "pytorch-metrics"), want: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := MainContainer([]string{"pytorch", "python"}, tc.containers)
			if got != &tc.containers[tc.want] {
				t.Errorf("the main container is %+v, want the container at index %d", got, tc.want)
			}
		})
	}
	t.Run("there is no main container without containers", func(t *testing.T) {
		t.Parallel()
		if got := MainContainer([]string{"pytorch"}, nil); got != nil {
			t.Errorf("the main container is %+v, want none", got)
		}
	})
}

func TestWithDefaults(t *testing.T) {
	t.Parallel()
	env := func(pairs ...string) []corev1.EnvVar {
		list := []corev1.EnvVar{}
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	fromField := []corev1.EnvVar{
		{Name: "ADDR", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
	for name, tc := range map[string]struct {
		env, defaults, want []corev1.EnvVar
	}{
		"without variables and defaults, the environment is empty": {want: env()},
		"a container without variables gets the defaults": {
			defaults: env("ADDR", "leader"), want: env("ADDR", "leader"),
		},
		"without defaults, the variables of the container stay": {env: env("MINE", "1"), want: env("MINE", "1")},
		"defaults come first, so that other variables can refer to them": {
			env: env("URL", "tcp://$(ADDR)"), defaults: env("ADDR", "leader"),
			want: env("ADDR", "leader", "URL", "tcp://$(ADDR)"),
		},
		"a variable of the container overrides the default and keeps its position": {
			env: env("A", "1", "ADDR", "mine"), defaults: env("ADDR", "leader", "PORT", "1"),
			want: env("PORT", "1", "A", "1", "ADDR", "mine"),
		},
		"an empty variable of the container overrides the default": {
			env: env("ADDR", ""), defaults: env("ADDR", "leader"), want: env("ADDR", ""),
		},
		"a variable of the container with valueFrom overrides the default": {
			env: fromField, defaults: env("ADDR", "leader"), want: fromField,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, WithDefaults(tc.env, tc.defaults)); diff != "" {
				t.Errorf("unexpected environment (-want +got):\n%s", diff)
			}
		})
	}
}
