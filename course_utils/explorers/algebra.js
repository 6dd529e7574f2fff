// A little linear algebra on Float64Arrays; an n x n matrix is stored row after row. Appended to draw.js.

/** The product of an m x n matrix and a vector of n numbers. */
function matvec(A, v) {
  const n = v.length;
  const out = new Float64Array(A.length / n);
  for (let i = 0; i < out.length; i++) {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += A[i * n + j] * v[j];
    out[i] = sum;
  }
  return out;
}

/** The product of two n x n matrices. */
function matmul(A, B, n) {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < n; k++) {
      const a = A[i * n + k];
      for (let j = 0; j < n; j++) out[i * n + j] += a * B[k * n + j];
    }
  }
  return out;
}

/** The largest singular value of an n x n matrix M: the root of the largest eigenvalue of MMᵀ. */
function spectralNorm(M, n) {
  const size = M.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  if (size === 0) return 0;
  const scaled = M.map((value) => value / size); // so that no square overflows or vanishes
  const square = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = 0;
      for (let k = 0; k < n; k++) sum += scaled[i * n + k] * scaled[j * n + k];
      square[i * n + j] = square[j * n + i] = sum;
    }
  }
  return size * Math.sqrt(largestEigenvalue(...tridiagonal(square, n)));
}

/** Householder reflections turn a symmetric A (overwritten) into a tridiagonal matrix with the same eigenvalues.
 *  Returns its diagonal, and the numbers to the left of the diagonal. */
function tridiagonal(A, n) {
  const diagonal = new Float64Array(n);
  const beside = new Float64Array(n);
  const v = new Float64Array(n); // direction of the mirror, in entries k + 1 to n - 1
  const p = new Float64Array(n);
  for (let k = 0; k < n; k++) {
    diagonal[k] = A[k * n + k];
    let squared = 0;
    for (let i = k + 1; i < n; i++) {
      v[i] = A[i * n + k];
      squared += v[i] * v[i];
    }
    if (squared === 0) continue; // nothing to clear in this column
    beside[k + 1] = v[k + 1] > 0 ? -Math.sqrt(squared) : Math.sqrt(squared);
    v[k + 1] -= beside[k + 1];
    const factor = 1 / (squared - beside[k + 1] * A[(k + 1) * n + k]); // 2 / |v|²
    let half = 0;
    for (let i = k + 1; i < n; i++) {
      let sum = 0;
      for (let j = k + 1; j < n; j++) sum += A[i * n + j] * v[j];
      p[i] = factor * sum;
      half += (factor * v[i] * p[i]) / 2;
    }
    for (let i = k + 1; i < n; i++) p[i] -= half * v[i];
    for (let i = k + 1; i < n; i++) {
      for (let j = k + 1; j < n; j++) A[i * n + j] -= v[i] * p[j] + p[i] * v[j];
    }
  }
  return [diagonal, beside];
}

/** By bisection: x lies above all eigenvalues of a tridiagonal matrix T if all pivots of T - x are negative. */
function largestEigenvalue(diagonal, beside) {
  const isAbove = (x) => {
    let pivot = 1;
    for (let i = 0; i < diagonal.length; i++) {
      pivot = diagonal[i] - x - beside[i] ** 2 / pivot; // beside[0] is 0
      if (pivot >= 0) return false;
    }
    return true;
  };
  let low = Math.max(...diagonal);
  let high = Math.max(...diagonal.map((d, i) => d + Math.abs(beside[i]) + Math.abs(beside[i + 1] ?? 0)));
  for (let middle = low; high - low > 4e-16 * high; ) {
    middle = (low + high) / 2;
    if (isAbove(middle)) high = middle;
    else low = middle;
  }
  return high;
}
