// How high rows are, and where. Most are guesses until they are drawn: learning one, adding one and finding one cost the same
// few steps however many there are (a Fenwick tree).

export class Heights {
  private tree = new Float64Array(1024);
  private own = new Float64Array(1024);
  private count = 0;
  private sum = 0;

  get length(): number {
    return this.count;
  }

  get total(): number {
    return this.sum;
  }

  of(index: number): number {
    return this.own[index] ?? 0;
  }

  push(height: number): void {
    if (this.count + 1 >= this.own.length) this.grow();
    this.own[this.count] = height;
    this.count += 1;
    this.sum += height;
    // What this node stands for: itself and the nodes below it.
    const place = this.count;
    let sum = height;
    for (let below = place - 1, end = place - (place & -place); below > end; below -= below & -below) sum += this.tree[below] ?? 0;
    this.tree[place] = sum;
  }

  set(index: number, height: number): void {
    const change = height - this.of(index);
    this.own[index] = height;
    this.sum += change;
    for (let place = index + 1; place <= this.count; place += place & -place) this.tree[place] = (this.tree[place] ?? 0) + change;
  }

  /** Where a row begins. */
  top(index: number): number {
    let sum = 0;
    for (let place = Math.min(index, this.count); place > 0; place -= place & -place) sum += this.tree[place] ?? 0;
    return sum;
  }

  /** The row at a height; the last one beyond the end. */
  at(height: number): number {
    let place = 0;
    let left = height;
    for (let step = 2 ** Math.floor(Math.log2(Math.max(1, this.count))); step >= 1; step /= 2) {
      const below = this.tree[place + step] ?? 0;
      if (place + step <= this.count && below <= left) {
        place += step;
        left -= below;
      }
    }
    return Math.max(0, Math.min(place, this.count - 1));
  }

  private grow(): void {
    const longer = (array: Float64Array) => {
      const next = new Float64Array(array.length * 2);
      next.set(array);
      return next;
    };
    this.tree = longer(this.tree);
    this.own = longer(this.own);
  }
}
