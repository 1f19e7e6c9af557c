{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* A value as text: numbers of a values file are floats, which print as 2.026e+07. */}}
{{- define "spanwire.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* An argument of a program: name, value. */}}
{{- define "spanwire.arg" -}}
{{- printf "--%s=%s" (index . 0) (include "spanwire.text" (index . 1)) | quote }}
{{- end }}

{{- define "spanwire.image" -}}
image: {{ printf "%s%s" .Values.image.repository (empty .Values.image.tag | ternary "" (printf ":%s" (include "spanwire.text" .Values.image.tag))) | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{/* Where pods go, from the values of one role; also image pull secrets, which are the same for all. */}}
{{- define "spanwire.placement" -}}
{{- with .role.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .role.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .role.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .all.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* The restricted profile of Pod Security. */}}
{{- define "spanwire.restricted" -}}
runAsNonRoot: true
runAsUser: 65532
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* A binding of an account to a role: kind, role, account, all; name and roleKind where they are not the role's and the kind. */}}
{{- define "spanwire.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name | default .role }}
  {{- if eq .kind "Role" }}
  namespace: {{ .all.Release.Namespace | quote }}
  {{- end }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .roleKind | default .kind }}, name: {{ .role }}}
subjects:
- {kind: ServiceAccount, name: {{ .account }}, namespace: {{ .all.Release.Namespace | quote }}}
{{- end }}

{{/* Annotations of what 'helm uninstall' runs first: the order. */}}
{{- define "spanwire.uninstall" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "spanwire.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .all.Release.Namespace | quote }}
{{- end }}
